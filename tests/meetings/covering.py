"""Covering arrays: few combinations in which each choice meets each other one."""

import itertools
import random


def covering(axes, allowed, also=None, seed=0):
    """Combinations in which every pair of values occurs, and every triple with a value of the axis `also`.

    Values that may not occur together are left out. The first value of each axis is its default, which a combination
    has wherever no pair is left to cover.

    Args:
        axes: the values of each axis by its name.
        allowed: whether a combination, a dict with a value for each axis, can be run.
        also: the name of an axis.
        seed: of the random choices.

    Returns:
        The combinations, dicts. The first have no other value of `also` than its default.

    Example:
        >>> axes = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
        >>> len(covering(axes, lambda combination: True)), len(covering(axes, lambda combination: True, also="a"))
        (4, 8)
    """
    draw, default = random.Random(seed), {name: values[0] for name, values in axes.items()}
    others, result = [name for name in axes if name != also], []
    for third in axes[also] if also else [None]:
        fixed = {also: third} if also else {}
        left = {}
        for a, b in itertools.combinations(others, 2):
            for x, y in itertools.product(axes[a], axes[b]):
                start = _allowed_with({**default, **fixed, a: x, b: y}, (a, b, also), axes, allowed)
                if start is not None:
                    left[(a, x), (b, y)] = start
        while left:
            found, gain, pool = None, 0, list(left)
            for _ in range(6):
                pair = draw.choice(pool)
                candidate = dict(left[pair])
                for name in draw.sample(others, len(others)):
                    values = [value for value in axes[name] if allowed({**candidate, name: value})]
                    if name not in dict(pair):
                        new = {
                            value: sum(_pair((name, value), (own, candidate[own]), others) in left for own in others)
                            for value in values
                        }
                        candidate[name] = max(values, key=lambda value, new=new: new[value])
                own = sum(pair in left for pair in _pairs(candidate, others))
                if own > gain:
                    found, gain = candidate, own
            for pair in _pairs(found, others):
                left.pop(pair, None)
            result.append(found)
    return result


def _allowed_with(combination, kept, axes, allowed):
    """The combination, with as few other values outside of `kept` as make it allowed; None if two do not."""
    free = [(name, value) for name in axes if name not in kept for value in axes[name]]
    for count in range(3):
        for changes in itertools.combinations(free, count):
            if allowed({**combination, **dict(changes)}):
                return {**combination, **dict(changes)}
    return None


def _pair(first, second, names):
    return (first, second) if names.index(first[0]) < names.index(second[0]) else (second, first)


def _pairs(combination, names):
    return [((a, combination[a]), (b, combination[b])) for a, b in itertools.combinations(names, 2)]
