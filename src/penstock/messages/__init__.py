"""The messages between parts of Penstock, as plain data.

A `Plan` goes down to the gate, a `Report` comes back from a batch, a `Binding` says which plan judges a batch. Messages
are checked when they are made and have one lossless way to JSON and Arrow and back (`codec`).
"""
