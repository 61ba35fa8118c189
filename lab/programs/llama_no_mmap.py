"""Serves a GGUF model of random weights with llama.cpp."""

import argparse
import sys

import numpy as np

if "--prepare" in sys.argv:
    import gguf
    from gguf.constants import GGMLQuantizationType as Kind

    wide, layers, vocabulary, inner = 1024, 16, 512, 4096
    generator = np.random.default_rng(0)
    for file, kind in (("model-f32.gguf", Kind.F32), ("model-q8_0.gguf", Kind.Q8_0)):
        writer = gguf.GGUFWriter(file, "llama")
        writer.add_context_length(4096)
        writer.add_embedding_length(wide)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(inner)
        writer.add_head_count(8)
        writer.add_head_count_kv(8)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model("llama")
        names = [f"<{n}>" if n < 3 else f"<0x{n - 3:02X}>" if n < 259 else f"w{n}" for n in range(vocabulary)]
        writer.add_token_list(names)
        writer.add_token_scores([0.0] * vocabulary)
        writer.add_token_types([3 if n < 3 else 6 if n < 259 else 1 for n in range(vocabulary)])
        shapes = {"token_embd": (vocabulary, wide), "output": (vocabulary, wide), "output_norm": (wide,)}
        for n in range(layers):
            shapes |= {f"blk.{n}.{name}": (wide, wide) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
            shapes |= {f"blk.{n}.attn_norm": (wide,), f"blk.{n}.ffn_norm": (wide,)}
            shapes |= {f"blk.{n}.ffn_gate": (inner, wide), f"blk.{n}.ffn_up": (inner, wide)}
            shapes[f"blk.{n}.ffn_down"] = (wide, inner)
        for name, shape in shapes.items():
            data = generator.standard_normal(shape, dtype=np.float32) * 0.02
            if len(shape) > 1 and kind is Kind.Q8_0:
                writer.add_tensor(f"{name}.weight", gguf.quantize(data, kind), raw_dtype=kind)
            else:
                writer.add_tensor(f"{name}.weight", data)
        for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
            write()
        writer.close()
    sys.exit()

from llama_cpp import Llama

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="model-f32.gguf")
parser.add_argument("--no-mmap", action="store_true")
parser.add_argument("--ctx-size", type=int, default=2048)
parser.add_argument("--requests", type=int, default=4)
args = parser.parse_args()

llama = Llama(model_path=args.model, use_mmap=not args.no_mmap, n_ctx=args.ctx_size, n_threads=2, verbose=True)
for number in range(args.requests):
    answer = llama([5, 6, 7, 8 + number], max_tokens=4)
    print(f"job {number} {answer['usage']}", flush=True)
