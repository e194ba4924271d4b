from keelson_sandbox import Sandbox, SandboxError


def generate_code(task: str) -> str:
    """Replace this with a call to your model: it returns a Python program for the task."""
    return f"""
# {task}
import csv, json
with open("prices.csv") as file:
    rows = list(csv.DictReader(file))
total = sum(float(row["price"]) * int(row["count"]) for row in rows)
with open("summary.json", "w") as file:
    json.dump({{"rows": len(rows), "total": total}}, file)
print("wrote summary.json")
"""


# Two programs that misbehave.
ENDLESS = "while True: pass"
NOSY = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    print("connected")
except OSError:
    print("no network")
"""

# Deleted at the end of the block, and after 5 minutes even if this program crashes.
with Sandbox.create(image="host", timeout=300) as box:
    box.files.write("prices.csv", "name,price,count\napple,0.5,4\npear,0.75,8\n")
    box.files.write("main.py", generate_code("Sum up prices.csv and write summary.json"))
    result = box.exec(["python3", "main.py"], timeout=30)
    print(result.stdout.strip() if result.exit_code == 0 else f"failed: {result.stderr}")
    print(box.files.read_text("summary.json"))

    print(box.exec(["python3", "-c", NOSY], timeout=30).stdout.strip())

    try:
        box.exec(["python3", "-c", ENDLESS], timeout=1)
    except SandboxError as error:
        if error.code != "TimedOut":
            raise
        print("stopped after one second")
