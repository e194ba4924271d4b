import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { MissingPeerError } from "../missing-peer.ts";

const run = promisify(execFile);

/** The version of client-go that is measured. */
export const clientGo = "client-go 0.35.0";

const module = `module bench

go 1.24.0

require k8s.io/client-go v0.35.0
`;

const program = `package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func main() {
	items, _ := strconv.Atoi(os.Args[1])
	backlog, _ := strconv.Atoi(os.Args[2])
	names := make([]string, items)
	queue := workqueue.NewTyped[string]()
	for i := 0; i < backlog; i++ {
		queue.Add("backlog-" + strconv.Itoa(i))
	}
	best := time.Duration(1 << 62)
	for round := 0; round < 5; round++ {
		// With a backlog, items of the previous round are still queued. Adding them again would have no effect.
		for i := range names {
			names[i] = "item-" + strconv.Itoa(round) + "-" + strconv.Itoa(i)
		}
		started := time.Now()
		for _, name := range names {
			queue.Add(name)
			item, _ := queue.Get()
			queue.Done(item)
		}
		if took := time.Since(started); took < best {
			best = took
		}
	}
	fmt.Println(float64(best.Nanoseconds()) / float64(items) / 1000)
}
`;

/** The built program. Call {@link ClientGoQueue.perItemUs} as often as needed. */
export interface ClientGoQueue extends Disposable {
  /** Time of add, get and done of one item, best of five rounds, in µs. */
  perItemUs(items: number, backlog: number): Promise<number>;
}

/**
 * Builds client-go's work queue with the Go toolchain in PATH, which downloads client-go unless it is in the module cache.
 *
 * **Errors**: {@link MissingPeerError} if Go is not installed or the build fails.
 */
export async function buildClientGoQueue(): Promise<ClientGoQueue> {
  const dir = mkdtempSync(join(tmpdir(), "keelson-bench-go-"));
  const remove = (): void => rmSync(dir, { recursive: true, force: true });
  writeFileSync(join(dir, "go.mod"), module);
  writeFileSync(join(dir, "main.go"), program);
  try {
    await run("go", ["build", "-mod=mod", "-o", "queue", "."], { cwd: dir, timeout: 300_000 });
  } catch (error) {
    remove();
    const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: string };
    if (code === "ENOENT") throw new MissingPeerError("go not found in PATH; install it to compare with client-go");
    throw new MissingPeerError(`client-go could not be built: ${(stderr ?? "").trim().split("\n")[0]}`);
  }
  return {
    async perItemUs(items, backlog) {
      const { stdout } = await run(join(dir, "queue"), [String(items), String(backlog)]);
      return Number(stdout);
    },
    [Symbol.dispose]: remove,
  };
}
