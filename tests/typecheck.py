"""The run-time type checker of the tests: beartype, with whole numbers accepted where a float is wanted, as PEP 484 says."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
