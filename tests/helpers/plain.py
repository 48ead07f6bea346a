"""Plain-loop references: each formula as it is defined, one scalar at a time."""

import types

import torch


def value_and_gradient(function, views):
    """The loss of views, and its gradient at them."""
    views = views.clone().requires_grad_()
    loss = function(views)
    loss.backward()
    return loss.detach(), views.grad


def agree(ours, reference, *inputs, within=1e-9):
    """Two losses are equal, and so are their gradients at each of the inputs, of which none is zero."""
    torch.testing.assert_close(ours, reference, rtol=within, atol=within)
    for a, b in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(reference, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=within, atol=within)
        assert a.abs().max() > 0


def cosine(a, b):
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def loop_loss(views, temperature, weight=0.0, keys=None, symmetric=False, documents=None):
    """The definition, one scalar at a time."""

    def one_way(anchor_view, positive_view, negatives):
        total = 0.0
        for i in range(len(views)):
            positive = cosine(views[i, anchor_view], views[i, positive_view]) / temperature
            terms = [positive]
            for j in range(len(views)):
                same = keys is not None and (
                    keys[j, positive_view] in (keys[i, anchor_view], keys[i, positive_view])
                    or keys[j, anchor_view] == keys[i, anchor_view]
                )
                same = same or (documents is not None and documents[j] == documents[i])
                if j != i and not same:
                    terms.append(cosine(views[i, anchor_view], views[j, positive_view]) / temperature)
                for v in negatives:
                    if keys is not None and keys[j, v] in (keys[i, anchor_view], keys[i, positive_view]):
                        continue
                    own = weight if j == i else 0.0
                    terms.append(cosine(views[i, anchor_view], views[j, v]) / temperature + own)
            total = total - positive + torch.stack(terms).exp().sum().log()
        return total / len(views)

    loss = one_way(0, 1, range(2, views.shape[1]))
    return (loss + one_way(1, 0, [])) / 2 if symmetric else loss


def loop_pool(layers, mask, pooling):
    rows = []
    for i in range(len(mask)):
        real = [t for t in range(mask.shape[1]) if mask[i, t]]
        if pooling in ("cls", "cls_before_pooler"):
            rows.append(layers[-1][i, 0])
        elif pooling == "last":
            rows.append(layers[-1][i, real[-1]])
        elif pooling == "max":
            rows.append(torch.stack([layers[-1][i, t] for t in real]).max(0).values)
        elif pooling == "mean_sqrt_len":
            rows.append(sum(layers[-1][i, t] for t in real) / len(real) ** 0.5)
        elif pooling == "weighted_mean":
            rows.append(sum((t + 1) * layers[-1][i, t] for t in real) / sum(t + 1 for t in real))
        else:
            chosen = {"mean": [-1], "avg_first_last": [1, -1], "avg_top2": [-2, -1]}[pooling]
            rows.append(sum(layers[layer][i, t] for layer in chosen for t in real) / (len(real) * len(chosen)))
    return torch.stack(rows)


def loop_window(places, offsets):
    """Weight of sentence j as a neighbour of i, pair by pair."""
    rows = []
    for document, position in places:
        offset = [int(p - position) if d == document else None for d, p in places]
        rows.append([float(offsets.get(o, 0.0)) for o in offset])
    return torch.tensor(rows, dtype=torch.float64)


def loop_overlap(bags):
    """Dot products of bags as dictionaries."""
    words = [{int(w): float(x) for w, x in bag if x} for bag in bags]
    return torch.tensor([[sum(a[w] * b.get(w, 0.0) for w in a) for b in words] for a in words], dtype=torch.float64)


def loop_targets_loss(loss_fn, f, g, raw, keys=None, documents=None):
    """The loss of anchors f `[N, d]` against candidates g with raw targets `[N, N]`, from its definition."""
    n, losses = len(f), []
    for i in range(n):
        allowed = [j for j in range(n) if j != i and (keys is None or keys[j] != keys[i] or raw[i, j] > 0)]
        if loss_fn.own_document == "mask":
            positives = [j for j in allowed if raw[i, j] > 0]
            if loss_fn.targets == "tfidf_bin" and positives:
                positives = [max(positives, key=lambda j: raw[i, j])]
            allowed = [j for j in allowed if documents[j] != documents[i] or documents[i] < 0 or j in positives]
        scores = {j: (f[i] * g[j]).sum() / loss_fn.score_temperature for j in allowed}
        if loss_fn.scores == "cosine":
            scores = {j: score / (f[i].square().sum() * g[j].square().sum()).sqrt() for j, score in scores.items()}
        if loss_fn.row_loss == "l2":
            if allowed:
                losses.append(sum((scores[j] - raw[i, j]) ** 2 for j in allowed) / len(allowed))
            continue
        weights = {j: float(raw[i, j]) for j in allowed if raw[i, j] > 0}
        if not weights:
            continue
        if loss_fn.targets == "tfidf_bin":
            weights = {max(weights, key=lambda j: weights[j]): 1.0}
        elif loss_fn.targets in ("counts", "tfidf") and loss_fn.row_loss not in ("block", "pairwise"):
            weights = {j: torch.exp(raw[i, j] / loss_fn.target_temperature).item() for j in allowed}
        total = sum(weights.values())
        target = {j: w / total for j, w in weights.items()}
        if loss_fn.row_loss in ("block", "pairwise"):
            block = [(i + n // 2 + step) % n for step in range(len(loss_fn.offsets))]
            negatives = [j for j in block if j in allowed and j not in target]
            if negatives:
                losses.append(loop_curl(loss_fn, scores, target, negatives))
            continue
        if len(allowed) < 2:
            continue
        mass = loss_fn.label_smoothing
        target = {j: (1 - mass) * target.get(j, 0.0) + mass / len(allowed) for j in allowed}
        log_sum = torch.stack(list(scores.values())).exp().sum().log()
        loss = -sum(t * (scores[j] - log_sum) for j, t in target.items())
        if loss_fn.row_loss == "kl":
            loss = loss + sum(t * torch.tensor(t, dtype=torch.float64).log() for t in target.values() if t)
        losses.append(loss)
    return sum(losses) / len(losses)


def loop_curl(loss_fn, scores, target, negatives):
    def surrogate(x):
        return torch.log1p(torch.exp(-x)) if loss_fn.surrogate == "logistic" else torch.clamp(1 - x, min=0)

    if loss_fn.row_loss == "block":
        positive = sum(w * scores[j] for j, w in target.items())
        return surrogate(positive - sum(scores[j] for j in negatives) / len(negatives))
    return sum(w * surrogate(scores[p] - scores[q]) / len(negatives) for p, w in target.items() for q in negatives)


def loop_rank_loss(similarities, scores, temperature):
    """CoSENT: each two pairs, one at a time."""
    total = torch.ones((), dtype=similarities.dtype)
    for i in range(len(scores)):
        for j in range(len(scores)):
            if scores[i] > scores[j]:
                total = total + ((similarities[j] - similarities[i]) / temperature).exp()
    return total.log()


def loop_guided(views, guide, loss_fn, keys=None):
    """InfoNCE over what the guide and equal texts leave, one score at a time."""

    def one_way(anchor, positive, negatives):
        total = 0.0
        for i in range(len(views)):
            most = cosine(guide[i, anchor], guide[i, positive])
            most = most - loss_fn.margin * (abs(most) if loss_fn.margin_strategy == "relative" else 1)
            own = cosine(views[i, anchor], views[i, positive]) / loss_fn.temperature
            terms = [own]
            # (my view, the other's view) of each kind of candidate
            kinds = [(anchor, positive), *((anchor, v) for v in negatives)]
            kinds += [(anchor, anchor)] * loss_fn.contrast_anchors + [(positive, positive)] * loss_fn.contrast_positives
            for j in range(len(views)):
                for mine, other in kinds:
                    if i == j and other in (anchor, positive):
                        continue
                    if keys is not None and (
                        keys[j, other] in (keys[i, anchor], keys[i, positive])
                        or (other == positive and keys[j, anchor] == keys[i, anchor])
                    ):
                        continue
                    if cosine(guide[i, mine], guide[j, other]) > most:
                        continue
                    extra = loss_fn.hard_negative_weight if i == j else 0.0
                    terms.append(cosine(views[i, mine], views[j, other]) / loss_fn.temperature + extra)
            total = total - own + torch.stack(terms).exp().sum().log()
        return total / len(views)

    loss = one_way(0, 1, range(2, views.shape[1]))
    return (loss + one_way(1, 0, [])) / 2 if loss_fn.symmetric else loss


def in_double(model):
    """The model in float64, and its root-mean-square norms, which transformers computes in float32."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(_norm, module)
    return model.double()


def _norm(self, x):
    eps = getattr(self, "variance_epsilon", None) or self.eps
    scale = self.weight + 1.0 if type(self).__name__.startswith("Gemma") else self.weight
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * scale
