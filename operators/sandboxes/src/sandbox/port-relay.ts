import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { networkNamespaceOf, type Program } from "@keelson/execution";
import { isAlive, portsOf } from "./sandbox-program.ts";

/*
 * A sandbox has its own network namespace with nothing but loopback. For each exposed port the agent listens on its own address and
 * hands every accepted connection to a relay process, which runs inside the sandbox's network namespace and connects to its loopback. The
 * relay starts with the first connection and shares nothing else with the sandbox: neither files nor processes.
 */

/** Options of {@link PortRelays}. */
export interface PortRelaysOptions {
  /** Address to listen on. */
  readonly address: string;
  /** Whether programs have their own network. Otherwise they listen on `address` themselves. */
  readonly isRelayed: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when a sandbox gets its first connection. The returned function is called when it has none left. */
  readonly begin?: (sandboxId: string) => () => void;
  /** Called when a relay has begun to listen on a port. */
  readonly onListening?: () => void;
}

/** The built relay program, even if this module runs from its source. */
const relayProgram = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../dist/sandbox/port-relay-program.js" : "./port-relay-program.js",
    import.meta.url,
  ),
);

/** Another process may still hold the port for a moment, such as an agent that is being replaced. */
const listenRetryMs = 500;

/** The exposed ports of an agent's sandboxes. */
export class PortRelays {
  readonly #options: PortRelaysOptions;
  readonly #relays = new Map<string, Relay>();

  constructor(options: PortRelaysOptions) {
    this.#options = options;
  }

  /** Exposes the ports of a program until it exits. */
  open(program: Program): void {
    const ports = portsOf(program);
    if (!this.#options.isRelayed || ports.length === 0 || this.#relays.has(program.id) || program.state.kind === "exited")
      return;
    const relay = new Relay(program, ports, this.#options);
    this.#relays.set(program.id, relay);
    void program.exited().then(() => {
      relay.close();
      if (this.#relays.get(program.id) === relay) this.#relays.delete(program.id);
    });
  }

  /** Ports of the agent that lead to a program: those on which its relay listens. */
  openPorts(program: Program): readonly number[] {
    if (this.#options.isRelayed) return this.#relays.get(program.id)?.listening() ?? [];
    return isAlive(program) ? portsOf(program) : [];
  }

  close(): void {
    for (const relay of this.#relays.values()) relay.close();
    this.#relays.clear();
  }
}

/** The exposed ports of one sandbox. */
class Relay {
  readonly #program: Program;
  readonly #options: PortRelaysOptions;
  readonly #servers: ReadonlyMap<number, Server>;
  #process: ChildProcess | undefined;
  /** Ends the use of the sandbox by its connections. */
  #endUse: (() => void) | undefined;
  #isClosed = false;

  constructor(program: Program, ports: readonly number[], options: PortRelaysOptions) {
    this.#program = program;
    this.#options = options;
    this.#servers = new Map(ports.map((port) => [port, this.#listen(port)]));
  }

  listening(): readonly number[] {
    return [...this.#servers].flatMap(([port, server]) => (server.listening ? [port] : []));
  }

  close(): void {
    this.#isClosed = true;
    for (const server of this.#servers.values()) server.close();
    this.#count(0);
    this.#process?.disconnect();
  }

  #listen(port: number): Server {
    const { address, clock, log, onListening } = this.#options;
    // Paused: not a byte is read before the relay has the connection.
    const server = createServer({ pauseOnConnect: true }, (socket) => this.#forward(port, socket));
    server.on("error", (error) => {
      log.warn({ err: error, sandboxId: this.#program.id, port }, "could not listen on an exposed port; retrying");
      clock.setTimer(listenRetryMs, () => !this.#isClosed && server.listen(port, address), { background: true });
    });
    if (onListening !== undefined) server.on("listening", onListening);
    return server.listen(port, address);
  }

  #forward(port: number, socket: Socket): void {
    socket.on("error", () => socket.destroy());
    // Until the relay reports.
    this.#count(1);
    const relay = (this.#process ??= this.#start());
    if (relay === undefined) socket.destroy();
    else relay.send({ port }, socket, { keepOpen: false }, (error) => error !== null && socket.destroy());
  }

  /** Notes the number of open connections. */
  #count(connections: number): void {
    if (connections > 0) this.#endUse ??= this.#options.begin?.(this.#program.id);
    else {
      this.#endUse?.();
      this.#endUse = undefined;
    }
  }

  #start(): ChildProcess | undefined {
    const namespace = networkNamespaceOf(this.#program);
    if (namespace === undefined) return undefined;
    // Only with the capabilities of its user namespace may a user other than root enter a network namespace.
    const user = process.getuid?.() === 0 ? [] : [`--user=${namespace.replace(/net$/, "user")}`, "--preserve-credentials"];
    const child = spawn("nsenter", [...user, `--net=${namespace}`, "--", process.execPath, relayProgram], {
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: { PATH: process.env.PATH },
      argv0: "keelson-port-relay",
    });
    const forget = (): void => {
      if (this.#process === child) this.#process = undefined;
      this.#count(0);
    };
    child.on("message", (message) => {
      if (typeof message === "object" && "connections" in message) this.#count(Number(message.connections));
    });
    child.once("error", forget).once("exit", forget);
    return child;
  }
}
