import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Client, connect } from "@keelson/client";
import { ConsistencyMode, createFastPathClient, Sandbox, SandboxPool } from "@keelson/sandboxes";
import { startKeelson, upArguments } from "keelson/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { createFolder, removeFolder } from "../../folder.ts";
import { startOwnContainerd } from "./containerd.ts";

const creates = 30;
const namespace = "default";
const stages = ["allocate", "log", "agent", "start", "api", "controller"] as const;

/**
 * From the call of CreateSandbox, over gRPC, to its response, when the program runs: FAST and STRONG, with the stages in the response,
 * alternating with `ctr run --detach` of the same program on a separate containerd.
 */
export const sandbox: Benchmark = {
  name: "sandbox",
  async run() {
    const dir = createFolder();
    const containerd = await startOwnContainerd(join(dir, "containerd"));
    const keelson = startKeelson(upArguments(dir, "--only", "apiserver,cluster,sandboxes"));
    try {
      const [, baseUrl = ""] = await keelson.printed(/fast path \(gRPC\) on (http:\S+),/);
      await keelson.printed(/^ready$/m);
      const token = readFileSync(join(dir, "keelson", "sandboxes", "fastpath-token"), "utf8").trim();
      const { fastPath } = createFastPathClient({ baseUrl, token });
      const client = await connect({ kubeconfig: join(dir, "keelson", "kubeconfig") });
      await createPool(client);
      const peers: number[] = [];
      const commands: number[] = [];
      const measured = new Map<string, number[]>();
      const note = (name: string, ms: number): void => void measured.set(name, [...(measured.get(name) ?? []), ms]);
      for (let index = 0; index < creates; index++) {
        for (const mode of ["FAST", "STRONG"] as const) {
          const name = `bench-${mode.toLowerCase()}-${index}`;
          const began = performance.now();
          const { timings } = await fastPath.createSandbox({
            name,
            image: "host",
            poolRef: "bench",
            command: ["/bin/sleep", "600"],
            consistencyMode: ConsistencyMode[mode],
          });
          note(mode, performance.now() - began);
          for (const stage of stages) if (timings[stage] !== undefined) note(`${mode} ${stage}`, timings[stage]);
          await fastPath.deleteSandbox({ sandboxName: name });
          await waitForDeletion(client, name);
        }
        if (containerd === undefined) continue;
        peers.push(containerd.run(`bench-${index}`));
        commands.push(containerd.commandMs());
        containerd.remove(`bench-${index}`);
      }
      await client.close();
      return figures(measured, peers, commands);
    } finally {
      await keelson.stop();
      await containerd?.stop();
      removeFolder(dir);
    }
  },
};

function figures(
  measured: ReadonlyMap<string, readonly number[]>,
  peers: readonly number[],
  commands: readonly number[],
): readonly Figure[] {
  const ended =
    peers.length > 0
      ? `including ${percentile(commands, 0.5).toFixed(1)} ms for the start of ctr`
      : "no containerd on this machine";
  const wholes = [0.5, 0.99].flatMap((fraction) =>
    (["FAST", "STRONG"] as const).map(
      (mode): Figure => ({
        name: `CreateSandbox ${mode}, p${fraction * 100}`,
        unit: "ms",
        ours: percentile(measured.get(mode) ?? [], fraction),
        ...(peers.length > 0 && { peer: { name: "ctr run --detach", value: percentile(peers, fraction) } }),
        original: mode === "FAST" ? { what: "design goal", value: 50 } : { what: "design estimate", value: 200 },
        note: `${creates} sequentially; ${ended}`,
      }),
    ),
  );
  const parts = [...measured].flatMap(([name, values]): readonly Figure[] => {
    const [mode, stage] = name.split(" ");
    if (stage === undefined) return [];
    return [{ name: `  ${mode}, stage ${stage}, p50`, unit: "ms", ours: percentile(values, 0.5) }];
  });
  return [...wholes, ...parts];
}

async function createPool(client: Client): Promise<void> {
  const capacity = { poolMin: 1, poolMax: 1 };
  await client.create(SandboxPool, { metadata: { name: "bench", namespace }, spec: { capacity, maxSandboxesPerPod: 10 } });
  const watch = await client.watch(SandboxPool, { namespace });
  for await (const event of watch) if (event.type !== "BOOKMARK" && event.object.status?.readyPods === 1) break;
  watch.close();
}

/** Waits until a sandbox is deleted, so that sandboxes do not overlap. */
async function waitForDeletion(client: Client, name: string): Promise<void> {
  const { items, metadata } = await client.list(Sandbox, { namespace });
  if (!items.some((item) => item.metadata.name === name)) return;
  const watch = await client.watch(Sandbox, { namespace, resourceVersion: metadata.resourceVersion ?? "" });
  for await (const event of watch) if (event.type === "DELETED" && event.object.metadata.name === name) break;
  watch.close();
}
