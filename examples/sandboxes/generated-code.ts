import { isSandboxError, Sandbox } from "@keelson/sandbox";

/** Replace this with a call to your model: it returns a Python program for the task. */
async function generateCode(task: string): Promise<string> {
  return `
# ${task}
import csv, json
with open("prices.csv") as file:
    rows = list(csv.DictReader(file))
total = sum(float(row["price"]) * int(row["count"]) for row in rows)
with open("summary.json", "w") as file:
    json.dump({"rows": len(rows), "total": total}, file)
print("wrote summary.json")
`;
}

/** Two programs that misbehave. */
const endless = "while True: pass";
const nosy = `
import socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    print("connected")
except OSError:
    print("no network")
`;

// Deleted at the end of the file, and after 5 minutes even if this program crashes.
await using box = await Sandbox.create({ image: "host", timeoutMs: 300_000 });

await box.files.write("prices.csv", "name,price,count\napple,0.5,4\npear,0.75,8\n");
await box.files.write("main.py", await generateCode("Sum up prices.csv and write summary.json"));
const { exitCode, stdout, stderr } = await box.exec(["python3", "main.py"], { timeoutMs: 30_000 });
console.log(exitCode === 0 ? stdout.trim() : `failed: ${stderr}`);
console.log(await box.files.readText("summary.json"));

const { stdout: answer } = await box.exec(["python3", "-c", nosy], { timeoutMs: 30_000 });
console.log(answer.trim());

try {
  await box.exec(["python3", "-c", endless], { timeoutMs: 1_000 });
} catch (error) {
  if (!isSandboxError(error, "TimedOut")) throw error;
  console.log("stopped after one second");
}
