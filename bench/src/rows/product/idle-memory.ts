import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Benchmark } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";
import { childrenOf, proportionalMiB } from "../../process-use.ts";

/** Memory of an idle `keelson up` with all families: of its process and those of its components. Pods and agents do not count. */
export const idleMemory: Benchmark = {
  name: "idle-memory",
  async run() {
    const keelson = await startLocalKeelson();
    const bare = spawn(process.execPath, ["-e", "process.stdout.write('up'); setInterval(() => {}, 1e6)"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(bare.stdout, "data");
    // Garbage of the start is collected in this time.
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const { pid } = keelson.process.child;
    const components = childrenOf(pid).filter((child) => readFileSync(`/proc/${child}/comm`, "utf8").startsWith("keelson"));
    const each = [pid, ...components].map(proportionalMiB);
    const ours = each.reduce((sum, value) => sum + value, 0);
    const peer = proportionalMiB(bare.pid);
    bare.kill();
    await keelson.stop();
    return [
      {
        name: "keelson up, all families, idle 5 s after ready: memory of its processes",
        unit: "MiB",
        ours,
        peer: { name: "an idle node process", value: peer },
        note: `proportional set size, ${each.map((value) => Math.round(value)).join(" + ")}`,
      },
    ];
  },
};
