import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Service } from "./service.ts";

/** Watchers in their own process. */
export interface Watchers extends AsyncDisposable {
  /** Resolves with the number of events received when it is at least `count`. */
  received(count: number): Promise<number>;
}

/** Starts `count` watchers of all objects. Resolves when all watches are open. */
export async function startWatchers(service: Service, count: number): Promise<Watchers> {
  const program = fileURLToPath(new URL("./watchers-program.js", import.meta.url));
  const child = spawn(process.execPath, [program, JSON.stringify(service), String(count)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await nextLine(lines);
  return {
    async received(wanted) {
      child.stdin.write(`${wanted}\n`);
      return Number(await nextLine(lines));
    },
    [Symbol.asyncDispose]: () => stopped(child),
  };
}

async function nextLine(lines: AsyncIterator<string>): Promise<string> {
  const { done, value } = await lines.next();
  if (done === true) throw new Error("the watchers exited");
  return value;
}

function stopped(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
    child.stdin?.end();
  });
}
