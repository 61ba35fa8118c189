"""Loads a GGUF model of random weights in llama.cpp and completes a prompt."""

import argparse
import sys
from pathlib import Path

import numpy as np

if "--prepare" in sys.argv:
    import gguf

    wide, layers, vocabulary = 256, 8, 512
    writer = gguf.GGUFWriter("model.gguf", "llama")
    writer.add_context_length(262144)
    writer.add_embedding_length(wide)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * wide)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        [f"<{n}>" if n < 3 else f"<0x{n - 3:02X}>" if n < 259 else f"w{n}" for n in range(vocabulary)]
    )
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types([3 if n < 3 else 6 if n < 259 else 1 for n in range(vocabulary)])
    shapes = {"token_embd": (vocabulary, wide), "output": (vocabulary, wide), "output_norm": (wide,)}
    for n in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{n}.{name}"] = (wide, wide)
        shapes |= {f"blk.{n}.attn_norm": (wide,), f"blk.{n}.ffn_norm": (wide,)}
        shapes |= {f"blk.{n}.ffn_gate": (2 * wide, wide), f"blk.{n}.ffn_up": (2 * wide, wide)}
        shapes[f"blk.{n}.ffn_down"] = (wide, 2 * wide)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.random.randn(*shape).astype(np.float32) * 0.02)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    sys.exit()

from llama_cpp import GGML_TYPE_F16, GGML_TYPE_Q8_0, Llama

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="model.gguf")
parser.add_argument("--ctx-size", type=int, default=131072)
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--cache-type", default="f16", choices=["f16", "q8_0"])
parser.add_argument("--flash-attn", action="store_true")
args = parser.parse_args()

kind = GGML_TYPE_F16 if args.cache_type == "f16" else GGML_TYPE_Q8_0
llama = Llama(
    model_path=str(Path(args.model)), n_ctx=args.ctx_size, n_batch=args.batch_size, type_k=kind, type_v=kind,
    flash_attn=args.flash_attn or args.cache_type != "f16", n_threads=2, verbose=True,
)  # fmt: skip
print(llama([5, 6, 7, 8], max_tokens=4)["usage"], flush=True)
