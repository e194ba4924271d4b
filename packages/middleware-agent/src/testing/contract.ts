import type { Clock } from "@keelson/api-machinery/time";
import type { MiddlewareEngine } from "../engine.ts";

/** A Pod of the suite: an engine with its program on its own volume. */
export interface ContractPod {
  /** Address of the program. */
  readonly host: string;
  /** The current engine; a new one after {@link crash}. */
  readonly engine: MiddlewareEngine;
  /** Kills the program, and starts a new engine on the same volume. Resolves when `start` has. */
  crash(): Promise<void>;
  /** Kills the program and starts nothing. */
  kill(): Promise<void>;
  /** Writes a key as a client. Resolves to false if the program does not accept it. */
  write(key: string): Promise<boolean>;
  /** Whether a client can log in and use the program, for engines with users. */
  canLogIn?(user: string, password: string): Promise<boolean>;
  /** Makes the program complete the file of its log that it is writing, for engines with a log. */
  completeLog?(): Promise<void>;
  /** Whether a client reads a key. False if the program does not serve clients. */
  has(key: string): Promise<boolean>;
}

/** A parameter and a value other than its default. */
export interface ParameterExample {
  readonly name: string;
  readonly value: string;
}

/** Options of {@link engineContract}. */
export interface EngineContractOptions {
  /** Starts Pods with empty volumes, the same port and password, and engines whose `start` has resolved. */
  startPods(count: number): Promise<readonly ContractPod[]>;
  /** Ends all Pods of a case. */
  stopPods(pods: readonly ContractPod[]): Promise<void>;
  /** Parameters in the files of the Pods. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Takes effect without a restart. */
  readonly hot: ParameterExample;
  /** Needs a restart. */
  readonly cold: ParameterExample;
  /** A value that the program rejects. */
  readonly invalid: ParameterExample;
  /** Password of the Pods, for engines with users. */
  readonly password?: string;
  /** Rules of a user, and rules that the program rejects, for engines with users. */
  readonly rules?: { readonly valid: readonly string[]; readonly invalid: readonly string[] };
  /** `users.defaultLogin` of the plugin, for programs with one password per login. `canLogIn` tries all logins of a user. */
  readonly defaultLogin?: string;
  readonly clock: Clock;
}

/** A case of the suite. The title is a sentence of behaviour. */
export interface ContractCase {
  readonly title: string;
  run(): Promise<void>;
}
