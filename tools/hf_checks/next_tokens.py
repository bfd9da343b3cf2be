"""A GLM of transformers with the block of its published files that predicts next tokens, which transformers does not have. It
needs torch and transformers."""
import torch
from transformers.models.glm4_moe import modeling_glm4_moe as glm

FACTOR = 0.3


def add_block(model):
    """Makes it a further layer, which the model does not run, with the names of published files: from the embedding of the next
    token, then the stream behind the last norm (vLLM, SGLang and Megatron-LM have them in this order)."""
    config = model.config
    layer = glm.Glm4MoeDecoderLayer(config, config.num_hidden_layers)
    for name in "enorm", "hnorm":
        layer.add_module(name, glm.Glm4MoeRMSNorm(config.hidden_size, eps=config.rms_norm_eps))
    layer.eh_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
    layer.shared_head = torch.nn.Module()
    layer.shared_head.norm = glm.Glm4MoeRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
    model.model.layers.append(layer)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.copy_(config.initializer_range * torch.randn_like(parameter))


def block_logits(model, ids, following, positions=None, mask=None):
    """Of the token after `following`, the tokens behind `ids`. `mask`: of pairs [1, 1, t, t], added to the scores."""
    layer, length = model.model.layers[-1], ids.shape[1]
    if positions is None:
        positions = torch.arange(length)[None]
    if mask is None:
        mask = torch.full((length, length), float("-inf")).triu(1)[None, None]
    stream = model.model(ids, position_ids=positions, attention_mask=mask).last_hidden_state
    both = [layer.enorm(model.model.embed_tokens(following)), layer.hnorm(stream)]
    x = layer.eh_proj(torch.cat(both, dim=-1))
    x = layer(x, attention_mask=mask, position_ids=positions, position_embeddings=model.model.rotary_emb(x, positions))
    return model.lm_head(layer.shared_head.norm(x))


def loss(model, batch):
    """Its mean over the labels of one sequence of a token more than the model reads: the last token has none."""
    logits = block_logits(model, batch[None, :-1], batch[None, 1:])[0]
    return FACTOR * torch.nn.functional.cross_entropy(logits[:-1], batch[2:])


def losses_of_documents(model, batch, begins, counts):
    """(the loss that is reported, that of next tokens) of a sequence of documents: tokens that begin one, and that count as labels."""
    ids, document, at = batch[None, :-1], torch.cumsum(begins.long(), 0), torch.arange(len(batch) - 1)
    positions = at - torch.cummax(torch.where(begins[:-1], at, 0), 0).values
    seen = (document[:-1, None] == document[None, :-1]) & (at[None] <= at[:, None])
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))[None, None]
    logits = [model(ids, position_ids=positions[None], attention_mask=mask).logits[0],
              block_logits(model, ids, batch[None, 1:], positions[None], mask)[0, :-1]]
    labels = [torch.where((document[n:] == document[:-n]) & counts[n:], batch[n:], -100) for n in (1, 2)]
    loss, ahead = (torch.nn.functional.cross_entropy(*pair) for pair in zip(logits, labels))
    return loss, FACTOR * ahead
