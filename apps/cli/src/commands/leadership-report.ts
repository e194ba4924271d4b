import type { Leadership } from "@keelson/controller";

interface Family {
  descriptions: readonly string[];
  printed: number;
  hasStarted: boolean;
  leadership: Leadership | undefined;
}

/**
 * Prints where the families of one process stand: a line for each that leads or waits, `standby` when all are up and one of them
 * waits for its lease, and `ready` when every one leads.
 */
export class LeadershipReport {
  readonly #count: number;
  readonly #print: (line: string) => void;
  readonly #families = new Map<string, Family>();
  #said: "ready" | "standby" | undefined;

  constructor(count: number, print: (line: string) => void) {
    this.#count = count;
    this.#print = print;
  }

  /** The family is up. `descriptions` may grow when it leads. */
  started(name: string, descriptions: readonly string[]): void {
    const family = this.#familyOf(name);
    family.descriptions = descriptions;
    family.hasStarted = true;
    this.#describe(name, family);
    this.#conclude();
  }

  changed(name: string, leadership: Leadership): void {
    const family = this.#familyOf(name);
    family.leadership = leadership;
    this.#describe(name, family);
    if (leadership.kind === "leading") this.#print(`${name}\tleading`);
    else this.#print(`${name}\tstandby: ${leadership.holder ?? "nobody"} holds the lease`);
    this.#conclude();
  }

  #familyOf(name: string): Family {
    const known = this.#families.get(name);
    if (known !== undefined) return known;
    const family: Family = { descriptions: [], printed: 0, hasStarted: false, leadership: undefined };
    this.#families.set(name, family);
    return family;
  }

  #describe(name: string, family: Family): void {
    for (const line of family.descriptions.slice(family.printed)) this.#print(`${name}\t${line}`);
    family.printed = family.descriptions.length;
  }

  #conclude(): void {
    const families = [...this.#families.values()];
    const isUp = families.length === this.#count && families.every(({ hasStarted }) => hasStarted);
    if (!isUp || families.some(({ leadership }) => leadership === undefined)) return;
    const now = families.every(({ leadership }) => leadership?.kind === "leading") ? "ready" : "standby";
    if (now !== this.#said) this.#print(now);
    this.#said = now;
  }
}
