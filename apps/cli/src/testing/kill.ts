import { readdirSync, readFileSync } from "node:fs";
import { startTestKeelson, type TestKeelson } from "./local-keelson.ts";

/** Kills `keelson up` with SIGKILL and starts another one on the same data folder. */
export async function killAndRestart(first: TestKeelson, dir: string, ...flags: string[]): Promise<TestKeelson> {
  first.process.child.kill("SIGKILL");
  await first.process.exited;
  return startTestKeelson(dir, ...flags);
}

/** Command lines that contain `text`, except those of `keelson up` itself. */
export function commandsWith(text: string): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return ""; // The process has exited.
      }
    })
    .filter((command) => command.includes(text) && !/keelson(\.js)? (up|apiserver|controllers|component) /.test(command));
}
