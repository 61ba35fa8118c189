"""Takes the shops and restaurants of an OpenStreetMap extract into a CSV file."""

import argparse
import csv
import os
import random
import xml.etree.ElementTree as ET

parser = argparse.ArgumentParser()
parser.add_argument("--input", default="extract.osm")
parser.add_argument("--output", default="places.csv")
parser.add_argument("--iterparse", action="store_true", help="element by element")
parser.add_argument("--tiles", type=int, default=1, help="read the extract in so many files (extract.osm.0 ...)")
parser.add_argument("--write-example", type=int, metavar="NODES")
args = parser.parse_args()


def write_example(name, numbers):
    chance = random.Random(5)
    with open(name, "w") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6" generator="osmium/1.16.0">\n')
        for number in numbers:
            out.write(
                f' <node id="{240000000 + number}" version="{number % 9}" '
                f'timestamp="2023-0{number % 9 + 1}-11T08:20:31Z" '
                f'uid="{number % 7919}" user="mapper{number % 7919}" lat="{chance.uniform(47, 49):.7f}" '
                f'lon="{chance.uniform(8, 11):.7f}"'
            )
            if number % 4:
                out.write("/>\n")
            else:
                out.write(
                    f'>\n  <tag k="amenity" v="restaurant"/>\n  <tag k="name" v="Gasthaus {number}"/>\n </node>\n'
                )
        out.write("</osm>\n")


def places(name):
    if args.iterparse:
        root = None
        for event, element in ET.iterparse(name, events=("start", "end")):
            root = element if root is None else root
            if event == "end" and element.tag == "node":
                yield element
                root.clear()
    else:
        yield from ET.parse(name).getroot().iter("node")


if args.write_example:
    half = args.write_example
    write_example(args.input, range(half))
    for tile in range(8):
        write_example(f"{args.input}.{tile}", range(tile, half, 8))
else:
    names = [args.input] if args.tiles == 1 else [f"{args.input}.{tile}" for tile in range(args.tiles)]
    with open(args.output, "w", newline="") as out:
        writer = csv.writer(out)
        count = 0
        for name in names:
            print(f"parsing {name} ({os.path.getsize(name) / 1e6:.0f} MB)", flush=True)
            for node in places(name):
                tags = {tag.get("k"): tag.get("v") for tag in node.iter("tag")}
                if "amenity" in tags:
                    count += 1
                    writer.writerow(
                        [node.get("id"), node.get("lat"), node.get("lon"), tags["amenity"], tags.get("name")]
                    )
    print(f"{count} places written to {args.output}")
