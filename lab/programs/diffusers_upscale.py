"""Text to image with a small latent diffusion model of random weights, on the CPU."""

import argparse
import time

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel

parser = argparse.ArgumentParser()
parser.add_argument("--height", type=int, default=512)
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--num_inference_steps", type=int, default=3)
parser.add_argument("--num_images_per_prompt", type=int, default=1)
parser.add_argument("--enable_vae_slicing", action="store_true")
parser.add_argument("--enable_vae_tiling", action="store_true")
parser.add_argument("--torch_dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()
print(vars(args), flush=True)

torch.manual_seed(0)
dtype = getattr(torch, args.torch_dtype)
unet = UNet2DModel(
    in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=16,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"), add_attention=False,
).to(dtype).eval()  # fmt: skip
vae = AutoencoderKL(
    block_out_channels=(32, 32, 64, 64), layers_per_block=1, latent_channels=4, norm_num_groups=16, sample_size=256,
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
).to(dtype).eval()  # fmt: skip
if args.enable_vae_slicing:
    vae.enable_slicing()
if args.enable_vae_tiling:
    vae.enable_tiling()
scheduler = DDIMScheduler()
scheduler.set_timesteps(args.num_inference_steps)
latents = torch.randn(args.num_images_per_prompt, 4, args.height // 8, args.width // 8, dtype=dtype)
with torch.no_grad():
    for number, t in enumerate(scheduler.timesteps, start=1):
        start = time.time()
        noise = unet(latents, t).sample
        latents = scheduler.step(noise, t, latents).prev_sample
        print(f"denoising step {number}/{args.num_inference_steps}, {time.time() - start:.2f} s/it", flush=True)
    print(f"decoding latents {tuple(latents.shape)}", flush=True)
    image = vae.decode(latents / vae.config.scaling_factor).sample
print(f"image {tuple(image.shape)}, mean {image.float().mean():.4f}", flush=True)
