"""Inference on a CPU with an item on each core: the values of one thread after the other, and nothing left behind."""

import os
import signal
import threading

import numpy as np
import pytest
import torch

from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.models import running
from contrastive_st.speed.cores import on_cores
from contrastive_st.tokens import Pass


@pytest.fixture(autouse=True)
def two_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def state(_):
    torch.zeros(8, requires_grad=True).exp()
    return (
        threading.current_thread().name, torch.get_num_threads(), torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
    )  # fmt: skip


def test_threads_compute_alone_without_gradients_and_with_the_callers_autocast():
    with torch.autocast("cpu", torch.float16):
        found = list(on_cores(state, range(4)))
    assert {name.rpartition("_")[0] for name, *_ in found} == {"core"}
    assert {tuple(others) for _, *others in found} == {(1, False, torch.float16)}
    assert {autocast for *_, autocast in on_cores(state, range(4))} == {False}  # the threads are the same ones
    assert torch.get_num_threads() == 2
    in_a_new_thread = []
    thread = threading.Thread(target=lambda: in_a_new_thread.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert in_a_new_thread == [2]


def test_a_single_item_has_all_threads():
    assert [threads for _, threads, *_ in on_cores(state, [0])] == [2]


def test_results_come_in_order_and_a_fault_comes_through():
    def work(i):
        if i == 3:
            raise InputError("item 3")
        return i

    results = on_cores(work, range(5))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="item 3"):
        next(results)
    assert list(on_cores(abs, [-1, -2])) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    list(on_cores(abs, [-1, -2]))
    child = os.fork()
    if child == 0:
        os._exit(0 if list(on_cores(abs, [-1, -2, -3])) == [1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_forked_after_products_on_several_threads_does_not_wait_for_them():
    threads, x = torch.get_num_threads(), torch.ones(512, 512)
    torch.set_num_threads(2)
    try:
        (x @ x).exp()
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends a process that hangs
            os._exit(0 if (x @ x).exp().isinf().all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_many_buckets_have_the_vectors_of_one_thread_after_the_other(bert_config, tokenizer, dtype, monkeypatch):
    """Buckets with and without padding at once: what transformers is told of one's mask must not reach the other."""
    monkeypatch.setitem(running._BUCKETS, "cpu", {"min_tokens": 64, "max_tokens": 64})
    encoder = SentenceEncoder(BertForCL(bert_config, pooling="mean").eval(), tokenizer)
    random = np.random.default_rng(0)
    rows = [random.integers(5, len(tokenizer), random.choice([3, 5, 8, 8, 8])).tolist() for _ in range(600)]
    found = [encoder._running.vectors(rows, 0, Pass(dtype=dtype)) for _ in range(5)]
    monkeypatch.setattr(running, "on_cores", map)
    with torch.inference_mode():
        wanted = encoder._running.vectors(rows, 0, Pass(dtype=dtype))
    for vectors in found:
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)


@pytest.mark.parametrize("mapped", [on_cores, running._one_ahead])
def test_a_stream_that_has_nothing_now_gets_the_next_result_first(mapped):
    """Each result is asked for by a None; a stream that waited for one without it would wait for ever."""
    results = []

    def stream():
        yield from (0, 1)
        for number in range(2, 6):
            while len(results) < number - 1:
                yield None
            yield number

    for result in mapped(lambda item: 10 * item, stream()):
        results.append(result)
    assert results == [0, 10, 20, 30, 40, 50]
    assert list(mapped(abs, iter([-1, None, -2]))) == [1, 2]
    assert list(mapped(abs, iter([]))) == []
