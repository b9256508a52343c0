"""Keyed random numbers in Python's integers: splitmix64 (Steele, Lea & Flood 2014) at a position, and the shuffle of Fisher & Yates."""

WORD = 2**64


def keyed_bits(stream, counter):
    x = (stream + (counter + 1) * 0x9E3779B97F4A7C15) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def keyed_below(stream, counter, bound):
    """One of 0 … bound − 1, from the upper half of the bits."""
    return (keyed_bits(stream, counter) >> 32) * bound >> 32


def keyed_order(size, stream, number):
    """Random order ``number`` of a row: from the last position down, each changes places with one that is not after it."""
    order = list(range(size))
    for place in range(len(order) - 1, 0, -1):
        other = keyed_below(int(stream), number * len(order) + place, place + 1)
        order[place], order[other] = order[other], order[place]
    return order
