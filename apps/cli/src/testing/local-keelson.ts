import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Client, connect } from "@keelson/client";
import { Robot } from "@keelson/robots";
import { type KeelsonProcess, startKeelson, upArguments } from "./keelson-process.ts";

/** A running `keelson up` for tests. */
export interface TestKeelson extends AsyncDisposable {
  readonly process: KeelsonProcess;
  readonly dataDir: string;
  readonly kubeconfig: string;
  /** `tcp://127.0.0.1:<port>` of the embedded broker. */
  readonly brokerUrl: string;
  /** Connects a client over HTTPS with the kubeconfig. */
  client(): Promise<Client>;
  /** Runs kubectl and resolves to its standard output. Rejects with its output if it fails. */
  kubectl(...args: string[]): Promise<string>;
  /** Starts a robot's agent and waits until the robot is online. */
  startRobot(robotId: string, ...flags: string[]): Promise<KeelsonProcess>;
}

const run = promisify(execFile);

/** Starts `keelson up` in `dir` with additional flags and waits until it is ready. */
export async function startTestKeelson(dir: string, ...flags: string[]): Promise<TestKeelson> {
  const process = startKeelson(upArguments(dir, ...flags));
  const dataDir = join(dir, "keelson");
  const kubeconfig = join(dataDir, "kubeconfig");
  const started: (AsyncDisposable | KeelsonProcess)[] = [process];
  await globalThis.Promise.resolve(process.printed(/^ready$/m)).catch(async (error: unknown) => {
    await process.stop();
    throw error;
  });
  const brokerUrl = process.output().match(/(?:tcp|mqtt):\/\/127\.0\.0\.1:\d+/)?.[0] ?? "";
  return {
    process,
    dataDir,
    kubeconfig,
    brokerUrl,
    client: () => connect({ kubeconfig }),
    async kubectl(...args) {
      try {
        const { stdout } = await run("kubectl", ["--kubeconfig", kubeconfig, ...args], { maxBuffer: 1 << 26, timeout: 50_000 });
        return stdout;
      } catch (error) {
        const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
        throw new Error(`kubectl ${args.join(" ")}: ${stderr}${stdout}`, { cause: error });
      }
    },
    async startRobot(robotId, ...more) {
      const agent = startKeelson([
        ...[
          "robots",
          "agent",
          "--robot-id",
          robotId,
          "--broker-url",
          brokerUrl,
          "--token-file",
          join(dataDir, "robots", "join-token"),
        ],
        ...["--work-dir", join(dir, "agents", robotId), "--stop-tasks-on-exit", ...more],
      ]);
      started.push(agent);
      const client = await connect({ kubeconfig });
      try {
        const watch = await client.watch(Robot, {
          namespace: "default",
          fieldSelector: `metadata.name=${robotId}`,
        });
        for await (const event of watch) if (event.type !== "BOOKMARK" && event.object.status?.phase === "Online") break;
        watch.close();
      } finally {
        await client.close();
      }
      return agent;
    },
    async [Symbol.asyncDispose]() {
      for (const each of started.reverse()) await each[Symbol.asyncDispose]();
    },
  };
}
