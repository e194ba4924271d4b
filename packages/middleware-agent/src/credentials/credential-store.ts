import { createHash, timingSafeEqual } from "node:crypto";
import { readJson, writeJson } from "../json-file.ts";
import type { Credentials, ProgramUser } from "./credential-engine.ts";

/** A password of the agents, with its login if the program has one password per login. */
export interface AgentPassword {
  readonly password: string;
  readonly login?: string;
}

/** Credentials as persisted in the volume, readable only by the agent's user. */
interface Stored extends Credentials {
  /** What the agent used before the last change. Servers of other Pods may still have it. */
  readonly previous?: AgentPassword | string;
  /** Hash of the password of the Pod at that time. A Pod with another one is newer than the file. */
  readonly startedWith: string;
}

/** Options of {@link CredentialStore}. */
export interface CredentialStoreOptions {
  readonly file: string;
  /** What the Pod was started with. */
  readonly initial: AgentPassword;
}

/** The users and passwords of a program in a file, for implementations of `CredentialEngine`. */
export class CredentialStore {
  readonly #file: string;
  readonly #initial: AgentPassword;
  #stored: Stored;
  #isSent = false;
  #isOutdated = false;

  constructor({ file, initial }: CredentialStoreOptions) {
    this.#file = file;
    this.#initial = initial;
    const users = [{ name: "default", rules: [], passwordHashes: [hashOf(initial.password)] }];
    this.#stored = { sequence: 0, ...initial, users, startedWith: hashOf(initial.password) };
  }

  /** Sequence of the credentials in force. */
  get sequence(): number {
    return this.#stored.sequence;
  }

  /** Id of the credentials in force. Empty without one. */
  get id(): string {
    return this.#stored.id ?? "";
  }

  get users(): readonly ProgramUser[] {
    return this.#stored.users;
  }

  /** Whether a controller has sent credentials to this Pod. Previously, it only knows `default` with the password that it was started with. */
  get isSent(): boolean {
    return this.#isSent;
  }

  /** Whether the users are those that an earlier Pod has persisted, and the password of this Pod is not one of theirs. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** How to authenticate at other servers, the most likely first. */
  get passwords(): readonly [AgentPassword, ...AgentPassword[]] {
    const { previous } = this.#stored;
    const own = passwordOf(this.#stored);
    const earlier = previous === undefined ? [] : [typeof previous === "string" ? { password: previous } : previous];
    const isNew = (each: AgentPassword, at: number, all: readonly AgentPassword[]): boolean =>
      !isSame(each, own) && all.findIndex((other) => isSame(each, other)) === at;
    return [own, ...[...earlier, this.#initial].filter(isNew)];
  }

  /** Reads the credentials that an earlier agent has persisted. */
  async load(): Promise<void> {
    const stored = (await readJson(this.#file)) as Stored | undefined;
    if (stored === undefined) return;
    const { startedWith } = this.#stored;
    const { password } = this.#initial;
    // The Secret has changed since: its password is accepted too.
    const isNewer = stored.startedWith !== startedWith && !stored.users.some((user) => accepts(user, password));
    this.#stored = isNewer ? withPassword(stored, this.#initial) : { ...stored, startedWith };
    this.#isOutdated = isNewer;
    this.#isSent = !isNewer;
  }

  /**
   * Whether credentials replace those in force: of an App that was created again with the volumes of an earlier one, or of a Secret that was
   * restored.
   */
  isReplacedBy({ id }: Credentials): boolean {
    return id !== this.#stored.id;
  }

  /** Why credentials must be refused: they are older than those in force. */
  refusalOf(credentials: Credentials): string | undefined {
    const { sequence } = this.#stored;
    if (this.isReplacedBy(credentials) || credentials.sequence >= sequence) return undefined;
    return `sequence ${credentials.sequence} is older than ${sequence}`;
  }

  /** Persists credentials. Last: a change that was interrupted must not be reported as one in force. */
  async save(credentials: Credentials): Promise<void> {
    const last = this.#stored;
    const isSamePassword = isSame(passwordOf(credentials), passwordOf(last));
    const previous = isSamePassword ? last.previous : passwordOf(last);
    const next = { ...credentials, startedWith: last.startedWith, ...(previous === undefined ? {} : { previous }) };
    await writeJson(this.#file, next);
    this.#stored = next;
    this.#isOutdated = false;
    this.#isSent = true;
  }

  /** Whether a password of a user is accepted. */
  accepts(name: string, password: string): boolean {
    return this.#stored.users.some((user) => user.name === name && accepts(user, password));
  }
}

function withPassword(stored: Stored, initial: AgentPassword): Stored {
  const hash = hashOf(initial.password);
  const users = stored.users.map((user) =>
    user.name === "default" ? { ...user, passwordHashes: [...user.passwordHashes, hash] } : user,
  );
  const { login: _, ...rest } = stored;
  return { ...rest, users, ...initial, previous: passwordOf(stored), startedWith: hash };
}

const passwordOf = ({ password, login }: AgentPassword): AgentPassword => ({
  password,
  ...(login === undefined ? {} : { login }),
});

const isSame = (a: AgentPassword, b: AgentPassword): boolean => a.password === b.password && a.login === b.login;

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

function accepts({ passwordHashes }: ProgramUser, password: string): boolean {
  const own = Buffer.from(hashOf(password));
  return passwordHashes.some((hash) => hash.length === own.length && timingSafeEqual(Buffer.from(hash), own));
}
