"""The experiments of LAS (Rivetti, Busnel, Querzoni, DEBS 2016).

`queueing` is one shedder, queue and operator; `runs` simulates the algorithms, `figures` makes each figure, `claims`
checks what the paper says, `plots` draws. `compiled` has accelerators, equal to the machines of `core.row` to the bit.
"""
