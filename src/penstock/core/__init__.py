"""The algorithms: pure functions and state machines over plain data; time and randomness are arguments.

Rooms: `loop` (the state machine), `control` (one query), `row` (LAS), `network` (Aurora), `grouping` (OSG), `fairness`
(THEMIS), `balanced` (ours) and `answers`. Modules: `settings` reads settings, `hashing` is Spark's xxHash64,
`seeded_random` draws by a seed, `rate_profile` says when rows arrive, `compiled` compiles loops with Numba.
"""
