"""Writes sources whose tables take the compiler some 170 MB each within seconds, and a Makefile."""

from pathlib import Path

ROWS = 110_000
for number in range(4):
    rows = "".join(f'{{{row},{row}.5,"w{row}"}},\n' for row in range(ROWS))
    table = f"struct Row{{int a; double b; const char* c;}};\nextern const Row table_{number}[];\n"
    Path(f"kernel_{number}.cpp").write_text(f"{table}const Row table_{number}[] = {{\n{rows}}};\n")
names = " ".join(f"kernel_{number}.o" for number in range(4))
Path("Makefile").write_text(f"all: {names}\n\t@echo linked\n%.o: %.cpp\n\tg++ -std=c++17 -O1 -g -c $< -o $@\n")
