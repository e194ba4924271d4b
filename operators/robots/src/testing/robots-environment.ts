import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { Secret } from "../api/secret.ts";
import { robots } from "../operator.ts";
import { connectScriptedAgent, type ScriptedAgent } from "./scripted-agent.ts";

/** Namespace of the tests' objects. */
export const namespace = "default";

/** The operator of an environment can be replaced, as by a test that restarts it. */
export type StartOperatorOptions = Omit<Parameters<typeof startOperator>[0], "operator" | "dataDir" | "client"> & {
  readonly client?: Client;
};

/** An API server, the robots operator with its broker, and agents that a test drives. */
export class RobotsEnvironment implements AsyncDisposable {
  readonly environment: TestEnvironment;
  readonly client: Client;
  readonly dataDir: string;
  readonly #clock: Clock | undefined;
  readonly #agents = new Set<ScriptedAgent>();
  #operator: RunningOperator | undefined;
  /** The join token. */
  token = "";

  private constructor(environment: TestEnvironment, clock: Clock | undefined) {
    this.environment = environment;
    this.client = createClient({ transport: environment.transport(), fieldManager: "test" });
    this.dataDir = mkdtempSync(join(tmpdir(), "robots-test-"));
    this.#clock = clock;
  }

  /** Starts everything. `clock` is that of the operator; the API server sets times by the real clock. */
  static async start({ clock }: { readonly clock?: Clock } = {}): Promise<RobotsEnvironment> {
    const environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
    const started = new RobotsEnvironment(environment, clock);
    await started.startOperator();
    const secret = await started.client.get(Secret, { namespace, name: "robot-join-token" });
    started.token = Buffer.from(secret.data?.token ?? "", "base64").toString();
    return started;
  }

  /** URL of the broker. */
  get url(): string {
    return this.#operator?.endpoints.mqtt ?? "";
  }

  /** Starts the operator after {@link stopOperator}. */
  async startOperator(options: StartOperatorOptions = {}): Promise<void> {
    this.#operator = await startOperator({
      operator: robots,
      client: this.client,
      dataDir: this.dataDir,
      flags: { "mqtt-port": "0", "mqtt-bind-address": "127.0.0.1" },
      ...(this.#clock === undefined ? {} : { clock: this.#clock }),
      ...options,
    });
  }

  async stopOperator(): Promise<void> {
    await this.#operator?.stop();
    this.#operator = undefined;
  }

  /** Connects an agent that is disconnected at the end. */
  async connect(options: Omit<Parameters<typeof connectScriptedAgent>[0], "url" | "token">): Promise<ScriptedAgent> {
    const agent = await connectScriptedAgent({ url: this.url, token: this.token, ...options });
    this.#agents.add(agent);
    return agent;
  }

  /** An agent that has left need not be disconnected. */
  forget(agent: ScriptedAgent): void {
    this.#agents.delete(agent);
  }

  /** Waits until a robot is online. */
  async online(...robotIds: readonly string[]): Promise<void> {
    for (const id of robotIds) await watched(this.client, Robot, id, (each) => each?.status?.phase === "Online");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const agent of this.#agents) await agent.leave();
    await this.stopOperator();
    await this.environment.stop();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}
