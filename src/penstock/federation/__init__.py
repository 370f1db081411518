"""Federated sites (THEMIS, section 6): transports, messages between sites, and the account over all of them; no Spark.

`bus` has the interface of transports and one in a folder, `kafka_bus` another. `exchange` moves rows and peer updates,
with boxes for rows before and after the transport. `parcel` is a batch in transit, `account` checks that every row is
accounted for.
"""
