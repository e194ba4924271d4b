import type { ProgramMetric, ProgramMetricSample } from "@keelson/middleware-agent";

/** Collects samples by metric. */
export class FamilyBuilder {
  readonly #families = new Map<string, { readonly type: ProgramMetric["type"]; readonly samples: ProgramMetricSample[] }>();
  readonly #helpOf: (name: string) => string;

  constructor(helpOf: (name: string) => string) {
    this.#helpOf = helpOf;
  }

  gauge(name: string, value: number, labels: Readonly<Record<string, string>> = {}): void {
    this.#add("gauge", name, value, labels);
  }

  counter(name: string, value: number, labels: Readonly<Record<string, string>> = {}): void {
    this.#add("counter", name, value, labels);
  }

  build(): readonly ProgramMetric[] {
    return [...this.#families].map(([name, { type, samples }]) => ({ name, help: this.#helpOf(name), type, samples }));
  }

  /** A value that is not a number is left out. */
  #add(type: ProgramMetric["type"], name: string, value: number, labels: Readonly<Record<string, string>>): void {
    if (Number.isNaN(value)) return;
    const family = this.#families.get(name) ?? { type, samples: [] };
    this.#families.set(name, family);
    family.samples.push({ labels, value });
  }
}
