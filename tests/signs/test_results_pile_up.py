"""Results that a program without a training keeps, as its innermost line tells: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK, crash, frame, ranking, refused

from oomdoctor.signs.evaluation import kept_results

MODEL = frame("torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)")
HOST = "MemoryError"


def log(code: str, *, function: str = "run", end: str = "", above: tuple[str, ...] = ()) -> list[str]:
    return [TRACEBACK, *above, f'  File "/srv/score.py", line 31, in {function}', f"    {code}", end or refused()]


@pytest.mark.parametrize(
    "code",
    [
        "total_loss += loss",
        "loss = loss + aux_loss",
        "p.grad += g",
        "x = x + self.attn(x)",
        "hidden_states = hidden_states + residual",
        "out += identity",
        "outputs += bias",
        "scores = scores + position_bias",
        "logits += mask",
        "exp_avg += grad",
        "outputs = model(batch)",
        "outs = torch.cat([a, b])",
        "lines.append(line)",
        "result = compute(x)",
        "predict(x)",
        # a layer hands them on
        "features = features + upsampled",
        "features = torch.cat([features, new], 1)",
        "scores = scores + relative",
        "outputs += shift",
        # the pass or the reading itself may have failed, without a frame of its own
        "results.append(compiled(image))",
        "features.append(kernels.attend(q, k, v).cpu())",
        "results.append(json.load(f))",
        "embeddings.append(np.load(f))",
        "estimates += compiled(image)",
        "results.append(",
    ],
)
def test_what_keeps_no_results(code: str) -> None:
    assert kept_results(crash(*log(code))) is None


@pytest.mark.parametrize(
    "lines",
    [
        # in a model's pass, in a generation, in a training
        log("outputs += out", above=tuple(MODEL)),
        log("outputs += out", function="forward"),
        log("scores += beam", function="beam_search"),
        ["--learning_rate 0.0001", *log("all_preds.append(p)")],  # of nobody's trainer
        ["Epoch 3: 10%|#  | 12/120 [00:10<01:30, 1.2it/s, loss=0.31]", *log("outputs.append(out)", function="train")],
    ],
)
def test_not_in_a_pass_nor_in_a_training(lines: list[str]) -> None:
    assert kept_results(crash(*lines)) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("estimates += out", "estimates"),
        ("self.outputs += part", "outputs"),
        ("preds = torch.cat([preds, p])", "preds"),
        ("all_embeddings = torch.cat((all_embeddings, e), dim=0)", "all_embeddings"),
        ("results.append(r)", "results"),
        ("self.predictions.extend(part)", "predictions"),
        ("logits_all = torch.vstack([logits_all, logits])", "logits_all"),
        ("heatmaps[i] += h", "heatmaps"),
        ("results.append(r.detach().cpu())", "results"),
        ("self.features = torch.cat([self.features, f])", "features"),
        ("total_scores_all = total_scores_all + s", "total_scores_all"),
        ("features.append(f)", "features"),
    ],
)
def test_a_line_that_keeps_results(code: str, name: str) -> None:
    assert kept_results(crash(*log(code))) == name
    assert ranking(*log(code))[0] == "eval-accumulation"
    if "torch" not in code:
        assert kept_results(crash(*log(code, end=HOST))) == name
