import { isJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { spawn } from "node:child_process";
import { dirname, isAbsolute, resolve } from "node:path";
import type { Credentials, CredentialSource } from "../transport/credentials.ts";
import { booleanField, fieldError, type KubeconfigEntry, stringField, stringsField } from "./kubeconfig.ts";
import { TransportError } from "../transport/transport-error.ts";

const maxOutputBytes = 1024 * 1024;
/** Credentials are renewed this long before they expire, so that no request is sent with expired ones. */
const leewayMs = 10_000;
const versions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/** Options of {@link ExecCredentials}. */
export interface ExecCredentialsOptions {
  /** `users[name=...].user.exec`. */
  readonly entry: KubeconfigEntry;
  /** The cluster, for plugins with `provideClusterInfo`. */
  readonly cluster: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Credentials from a program (client.authentication.k8s.io/v1 ExecCredential). The program runs without a shell, and again when its
 * credentials expire or are rejected. It inherits the standard error of this process.
 */
export class ExecCredentials implements CredentialSource {
  readonly #options: ExecCredentialsOptions;
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #version: string;
  readonly #env: Record<string, string>;
  readonly #usesTerminal: boolean;
  #current: { readonly credentials: Credentials; readonly expiresAt: number } | undefined;
  #running: Promise<Credentials> | undefined;

  constructor(options: ExecCredentialsOptions) {
    const { entry } = options;
    this.#options = options;
    const command = stringField(entry, "command");
    if (command === undefined) throw fieldError(entry, "command", "is missing");
    // A bare name is looked up in PATH. A relative path is resolved against the directory of the file.
    const isPath = command.includes("/") || command.includes("\\");
    this.#command = isPath && !isAbsolute(command) ? resolve(dirname(entry.file), command) : command;
    this.#args = stringsField(entry, "args") ?? [];
    this.#version = stringField(entry, "apiVersion") ?? "";
    if (!versions.includes(this.#version)) {
      throw fieldError(entry, "apiVersion", `is ${JSON.stringify(this.#version)}; must be ${versions.join(" or ")}`);
    }
    const mode = stringField(entry, "interactiveMode") ?? "IfAvailable";
    if (!["Never", "IfAvailable", "Always"].includes(mode)) {
      throw fieldError(entry, "interactiveMode", `is ${JSON.stringify(mode)}; must be Never, IfAvailable or Always`);
    }
    this.#usesTerminal = mode !== "Never" && process.stdin.isTTY === true;
    if (mode === "Always" && !this.#usesTerminal)
      throw fieldError(entry, "interactiveMode", "is Always, but standard input is not a terminal");
    this.#env = { ...readEnv(entry), KUBERNETES_EXEC_INFO: this.#execInfo(booleanField(entry, "provideClusterInfo") ?? false) };
  }

  get(signal?: AbortSignal): Promise<Credentials> {
    if (this.#current !== undefined && this.#options.clock.now() < this.#current.expiresAt - leewayMs) {
      return Promise.resolve(this.#current.credentials);
    }
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
    return signal === undefined ? this.#running : abortable(this.#running, signal);
  }

  invalidate(): void {
    this.#current = undefined;
  }

  #execInfo(withCluster: boolean): string {
    const spec = { interactive: this.#usesTerminal, ...(withCluster ? { cluster: this.#options.cluster } : {}) };
    return JSON.stringify({ apiVersion: this.#version, kind: "ExecCredential", spec });
  }

  async #run(): Promise<Credentials> {
    const text = await this.#spawn();
    let output: unknown;
    try {
      output = JSON.parse(text);
    } catch (error) {
      throw this.#error("did not print JSON", error);
    }
    if (!isJsonObject(output) || output["kind"] !== "ExecCredential") throw this.#error("did not print an ExecCredential");
    if (output["apiVersion"] !== this.#version) {
      throw this.#error(`printed apiVersion ${JSON.stringify(output["apiVersion"])}, expected ${this.#version}`);
    }
    const status = isJsonObject(output["status"]) ? output["status"] : {};
    const { token, clientCertificateData, clientKeyData, expirationTimestamp } = status;
    const credentials: Credentials = {
      ...(typeof token === "string" ? { token } : {}),
      ...(typeof clientCertificateData === "string" ? { clientCertificate: clientCertificateData } : {}),
      ...(typeof clientKeyData === "string" ? { clientKey: clientKeyData } : {}),
    };
    if (
      credentials.token === undefined &&
      (credentials.clientCertificate === undefined || credentials.clientKey === undefined)
    ) {
      throw this.#error("printed neither status.token nor status.clientCertificateData with status.clientKeyData");
    }
    const expires = typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.POSITIVE_INFINITY;
    if (Number.isNaN(expires))
      throw this.#error(`printed an invalid status.expirationTimestamp ${JSON.stringify(expirationTimestamp)}`);
    this.#current = { credentials, expiresAt: expires };
    return credentials;
  }

  #spawn(): Promise<string> {
    return new Promise((resolveOutput, reject) => {
      const child = spawn(this.#command, [...this.#args], {
        env: { ...this.#options.env, ...this.#env },
        stdio: [this.#usesTerminal ? "inherit" : "ignore", "pipe", "inherit"],
        shell: false,
      });
      const chunks: Buffer[] = [];
      let bytes = 0;
      child.stdout?.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > maxOutputBytes) child.kill("SIGKILL");
        else chunks.push(chunk);
      });
      child.on("error", (error) => {
        const hint = stringField(this.#options.entry, "installHint");
        reject(this.#error(`could not be started: ${error.message}${hint === undefined ? "" : `\n${hint}`}`, error));
      });
      child.on("close", (code, signal) => {
        if (bytes > maxOutputBytes) reject(this.#error(`printed more than ${maxOutputBytes} bytes`));
        else if (code !== 0)
          reject(this.#error(signal === null ? `exited with status ${code}` : `was terminated by ${signal}`));
        else resolveOutput(Buffer.concat(chunks).toString("utf8"));
      });
    });
  }

  #error(problem: string, cause?: unknown): TransportError {
    const { entry } = this.#options;
    const message = `kubeconfig ${entry.file}: ${entry.path}: ${this.#command} ${problem}`;
    return new TransportError("Credentials", message, cause === undefined ? {} : { cause });
  }
}

function readEnv(entry: KubeconfigEntry): Record<string, string> {
  const list = entry.fields["env"] ?? [];
  if (!Array.isArray(list)) throw fieldError(entry, "env", "is not a list");
  const env: Record<string, string> = {};
  for (const [index, each] of list.entries()) {
    if (!isJsonObject(each) || typeof each["name"] !== "string" || typeof each["value"] !== "string") {
      throw fieldError(entry, `env[${index}]`, "must have a name and a value, both strings");
    }
    env[each["name"]] = each["value"];
  }
  return env;
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolvePromise, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolvePromise, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
