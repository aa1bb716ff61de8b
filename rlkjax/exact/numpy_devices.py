"""`shard_map` in NumPy: each device runs the body on its own parts; collectives are meetings.

A device is a thread, for no other reason than that it can wait for the others in the middle of a
loop. What they exchange is ordered by the number of the device, so that no schedule can show.
"""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlkjax.exact.numpy_moves import larger, smaller

Value = NDArray[Any]
Params = Mapping[str, Any]
Sum = Callable[[Value, Sequence[int]], Value]


@dataclass
class Meeting:
    """Where devices exchange values.

    Attributes:
      size: how many devices there are.
    """

    size: int
    slots: list[Any] = field(init=False)
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        """Makes a slot for each device."""
        self.slots = [None] * self.size
        self.barrier = threading.Barrier(self.size)

    def exchange(self, number: int, value: Any) -> list[Any]:
        """The values of all devices, in their order."""
        self.slots[number] = value
        self.barrier.wait()
        values = list(self.slots)
        self.barrier.wait()
        return values


@dataclass(frozen=True)
class Device:
    """One device of a mesh.

    Attributes:
      sizes: axis -> number of devices along it, in the order of the mesh.
      place: axis -> number of this device along it.
      meeting: where it meets the others.
    """

    sizes: Mapping[str, int]
    place: Mapping[str, int]
    meeting: Meeting

    def number(self, place: Mapping[str, int]) -> int:
        """Number of the device at a place."""
        return flat([place[a] for a in self.sizes], list(self.sizes.values()))

    def along(self, names: Sequence[str] | str, value: Any) -> tuple[int, list[Any]]:
        """(this device's number along axes, the values of the devices along them)."""
        names = (names,) if isinstance(names, str) else tuple(names)
        values = self.meeting.exchange(self.number(self.place), value)
        lengths = [self.sizes[n] for n in names]
        found = []
        for index in itertools.product(*map(range, lengths)):
            found.append(
                values[self.number({**self.place, **dict(zip(names, index, strict=True))})]
            )
        return flat([self.place[n] for n in names], lengths), found


def one_more(device: Device | None, axis: str, count: int) -> list[Device]:
    """What takes the place of a device: as many of them, along one more axis.

    Args:
      device: the one that runs, or none; all others do the same at the same time.
      axis: name of the new axis.
      count: its length.
    """
    outer = device or Device({}, {}, Meeting(1))
    sizes = {**outer.sizes, axis: count}
    own = Meeting(outer.meeting.size * count)
    meeting = outer.meeting.exchange(outer.number(outer.place), own)[0]
    return [Device(sizes, {**outer.place, axis: i}, meeting) for i in range(count)]


def flat(index: Sequence[int], lengths: Sequence[int]) -> int:
    """Row-major number of an index."""
    return reduce(
        lambda total, pair: total * pair[1] + pair[0], zip(index, lengths, strict=True), 0
    )


def collective(
    name: str, device: Device, total: Sum, params: Params, args: Sequence[Value]
) -> list[Value]:
    """What devices compute together.

    Args:
      name: of the primitive.
      device: the one that asks.
      total: sum along axes, order-free.
      params: of the equation.
      args: this device's operands.

    Returns:
      This device's results.
    """
    if name == "axis_index":
        return [np.asarray(device.along(params["axis_name"], None)[0], np.int32)]
    outs = []
    for x in args:
        here, parts = device.along(params.get("axes", params.get("axis_name")), x)
        if name in ("psum", "psum_invariant"):
            outs.append(total(np.stack(parts), (0,)))
        elif name in ("pmax", "pmin"):
            outs.append(reduce(larger if name == "pmax" else smaller, parts))
        else:
            outs.append(EXCHANGES[name](params, parts, here, total))
    return outs


def all_gather(params: Params, parts: Sequence[Value], here: int, total: Sum) -> Value:
    """The parts side by side, or along a new axis."""
    join = np.concatenate if params["tiled"] else np.stack
    return join(parts, params["all_gather_dimension"])


def reduce_scatter(params: Params, parts: Sequence[Value], here: int, total: Sum) -> Value:
    """This device's piece of the sum."""
    place = params["scatter_dimension"]
    piece = np.split(total(np.stack(parts), (0,)), len(parts), place)[here]
    return piece if params["tiled"] else np.squeeze(piece, place)


def ppermute(params: Params, parts: Sequence[Value], here: int, total: Sum) -> Value:
    """The part of the device that sends to this one, or zeros."""
    source = {target: start for start, target in params["perm"]}
    return parts[source[here]] if here in source else np.zeros_like(parts[here])


def all_to_all(params: Params, parts: Sequence[Value], here: int, total: Sum) -> Value:
    """Piece `here` of every device."""
    pieces = [np.split(p, len(parts), params["split_axis"])[here] for p in parts]
    return np.concatenate(pieces, params["concat_axis"])


EXCHANGES: dict[str, Callable[[Params, Sequence[Value], int, Sum], Value]] = {
    "all_gather": all_gather,
    "all_gather_invariant": all_gather,
    "reduce_scatter": reduce_scatter,
    "ppermute": ppermute,
    "all_to_all": all_to_all,
}


def one_more_axis(params: Params) -> dict[str, Any]:
    """Parameters of a dot whose operands got a new first axis, contracted as well."""
    contract, batch = params["dimension_numbers"]
    contract = tuple((0, *(a + 1 for a in axes)) for axes in contract)
    batch = tuple(tuple(a + 1 for a in axes) for axes in batch)
    return {**params, "dimension_numbers": (contract, batch)}


def shard_map(
    body: Callable[[Device, Sequence[Value]], list[Value]], params: Params, args: Sequence[Value]
) -> list[Value]:
    """Runs the body on every device and joins the results.

    Args:
      body: (device, its parts of the operands) -> its parts of the results.
      params: of the `shard_map` primitive.
      args: the operands.

    Returns:
      The results; of copies that should be equal, the first device's.
    """
    sizes = {n: params["mesh"].shape[n] for n in params["mesh"].axis_names}
    sizes = {n: size for n, size in sizes.items() if n in params["newly_manual_axes"]}
    places = [
        dict(zip(sizes, index, strict=True))
        for index in itertools.product(*map(range, sizes.values()))
    ]
    meeting = Meeting(len(places))
    devices = [Device(sizes, place, meeting) for place in places]
    parts = [
        [x[box(x.shape, spec, d)] for x, spec in zip(args, params["in_specs"], strict=True)]
        for d in devices
    ]
    results = run_all(body, devices, parts)
    joined = []
    for column, spec in zip(zip(*results, strict=True), params["out_specs"], strict=True):
        factors = [int(np.prod([sizes[n] for n in names])) for names in axis_names(spec, column[0])]
        shape = [n * f for n, f in zip(column[0].shape, factors, strict=True)]
        whole = np.zeros(shape, column[0].dtype)
        for device, part in reversed(list(zip(devices, column, strict=True))):
            whole[box(shape, spec, device)] = part
        joined.append(whole)
    return joined


def axis_names(spec: Any, x: Value) -> list[tuple[str, ...]]:
    """For each axis of an array the device axes it is split over."""
    entries = [*spec, *[None] * x.ndim][: x.ndim]
    return [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in entries]


def box(shape: Sequence[int], spec: Any, device: Device) -> tuple[slice, ...]:
    """A device's part of an array of this shape."""
    found = []
    for length, names in zip(shape, axis_names(spec, np.empty(shape, np.bool_)), strict=True):
        lengths = [device.sizes[n] for n in names]
        size = length // int(np.prod(lengths))
        start = flat([device.place[n] for n in names], lengths) * size
        found.append(slice(start, start + size))
    return tuple(found)


def run_all(
    body: Callable[[Device, Sequence[Value]], list[Value]],
    devices: Sequence[Device],
    parts: Sequence[Sequence[Value]],
) -> list[list[Value]]:
    """The results of all devices; the first error of a device is raised."""
    results: list[Any] = [None] * len(devices)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            results[number] = body(devices[number], parts[number])
        except threading.BrokenBarrierError:
            return
        except Exception as error:
            errors.append(error)
            devices[number].meeting.barrier.abort()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
