import { readdirSync, readFileSync } from "node:fs";
import { startTestKeelson, type TestKeelson } from "./local-keelson.ts";

/** Kills `keelson up` as a machine's out-of-memory killer would, and starts another one on the data that it left. */
export async function killAndRestart(first: TestKeelson, dir: string, ...flags: string[]): Promise<TestKeelson> {
  first.process.child.kill("SIGKILL");
  await first.process.exited;
  return startTestKeelson(dir, ...flags);
}

/** Command lines of the processes that have `text` in theirs, but for `keelson up` itself. */
export function commandsWith(text: string): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return ""; // It has ended.
      }
    })
    .filter((command) => command.includes(text) && !command.includes(" up --data-dir "));
}
