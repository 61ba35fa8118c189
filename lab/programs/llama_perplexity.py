"""The perplexity of a text under a GGUF model of random weights."""

import argparse
import sys

import numpy as np

if "--prepare" in sys.argv:
    import gguf

    wide, layers, vocabulary = 64, 2, 32000
    writer = gguf.GGUFWriter("tiny-32k.gguf", "llama")
    writer.add_context_length(65536)
    writer.add_embedding_length(wide)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * wide)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        [f"<{n}>" if n < 3 else f"<0x{n - 3:02X}>" if n < 259 else f"w{n}" for n in range(vocabulary)]
    )
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types([3 if n < 3 else 6 if n < 259 else 1 for n in range(vocabulary)])
    shapes = {"token_embd": (vocabulary, wide), "output": (vocabulary, wide), "output_norm": (wide,)}
    for n in range(layers):
        shapes |= {f"blk.{n}.attn_q": (wide, wide), f"blk.{n}.attn_output": (wide, wide)}
        shapes |= {f"blk.{n}.attn_k": (wide // 2, wide), f"blk.{n}.attn_v": (wide // 2, wide)}
        shapes |= {f"blk.{n}.attn_norm": (wide,), f"blk.{n}.ffn_norm": (wide,)}
        shapes |= {f"blk.{n}.ffn_gate": (2 * wide, wide), f"blk.{n}.ffn_up": (2 * wide, wide)}
        shapes[f"blk.{n}.ffn_down"] = (wide, 2 * wide)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.random.randn(*shape).astype(np.float32) * 0.02)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    sys.exit()

from llama_cpp import Llama

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="tiny-32k.gguf")
parser.add_argument("--n-ctx", type=int, default=16384)
parser.add_argument("--n-batch", type=int, default=512)
parser.add_argument("--tokens", type=int, default=16384, help="of the text")
parser.add_argument("--stride", type=int, default=0, help="score so many tokens at once; 0: as many as the context has")
args = parser.parse_args()

window = args.stride or args.n_ctx
llama = Llama(model_path=args.model, n_ctx=window, n_batch=args.n_batch, logits_all=True, n_threads=2, verbose=True)
text = np.random.default_rng(0).integers(300, llama.n_vocab(), args.tokens)
print(f"perplexity: calculating over {-(-args.tokens // window)} chunks, n_ctx={window}", flush=True)
total, count = 0.0, 0
for number, at in enumerate(range(0, args.tokens, window)):
    tokens = text[at : at + window]
    llama.reset()
    llama.eval(tokens.tolist())
    for first in range(0, len(tokens) - 1, 256):
        logits = np.array(llama.scores[first : min(first + 256, len(tokens) - 1)], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        following = tokens[first + 1 : first + 1 + len(logits)]
        total -= logits[np.arange(len(logits)), following].sum()
        count += len(logits)
    print(f"batch {number + 1} ppl {np.exp(total / count):.4f}", flush=True)
print(f"Final estimate: PPL = {np.exp(total / count):.4f}", flush=True)
