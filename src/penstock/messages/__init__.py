"""The messages between parts of Penstock, as plain data.

A `plan` goes down to the gate, a `report` comes back from a batch; a binding (in `plan`) says which plan judges it.
A `claim` says which guard owns a folder, a peer update (`site_news`) goes from a site to its peers. Messages
are checked when they are made and have one lossless way to JSON and Arrow and back (`codec`).
"""
