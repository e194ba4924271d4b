import { addAmounts, type Amounts } from "@keelson/api-machinery/scheduling";

/** Limits of a queue. */
export interface QueueRules {
  readonly quota?: Amounts;
  readonly namespaceQuota?: Amounts;
  /** Namespaces that may use the queue. Default: all. */
  readonly namespaces?: ReadonlySet<string>;
  readonly isHeld?: boolean;
  readonly ignoresCapacity?: boolean;
}

/** Whose use is limited: a queue, or a namespace in a queue. */
export interface QuotaDomain {
  readonly key: string;
  readonly description: string;
  readonly limits: Amounts;
}

/** A part of a job that quotas limit. */
export interface QuotaUse {
  readonly queue: string;
  readonly namespace: string;
  readonly total: Amounts;
}

/** A quota that a job exceeds. */
export interface Excess {
  readonly domain: QuotaDomain;
  readonly resource: string;
  readonly used: bigint;
}

/** The quotas that apply to a job. */
export function domainsOf(rules: QueueRules | undefined, { queue, namespace }: QuotaUse): readonly QuotaDomain[] {
  const domains: QuotaDomain[] = [];
  if (rules?.quota !== undefined) domains.push({ key: queue, description: `queue ${queue}`, limits: rules.quota });
  if (rules?.namespaceQuota !== undefined)
    domains.push({
      key: `${queue}/${namespace}`,
      description: `namespace ${namespace} in queue ${queue}`,
      limits: rules.namespaceQuota,
    });
  return domains;
}

/** What admitted jobs use, by queue and by namespace in a queue. */
export class QuotaLedger {
  readonly #used: Map<string, Map<string, bigint>>;

  constructor(used: ReadonlyMap<string, Amounts> = new Map()) {
    this.#used = new Map([...used].map(([key, amounts]) => [key, new Map(amounts)]));
  }

  /** An independent copy. */
  copy(): QuotaLedger {
    return new QuotaLedger(this.#used);
  }

  /** Adds what a job uses. */
  take({ queue, namespace, total }: QuotaUse): void {
    for (const key of [queue, `${queue}/${namespace}`]) addAmounts(this.#of(key), total);
  }

  /** Subtracts what a job has used. */
  release({ queue, namespace, total }: QuotaUse): void {
    const negative = new Map([...total].map(([resource, amount]) => [resource, -amount]));
    for (const key of [queue, `${queue}/${namespace}`]) addAmounts(this.#of(key), negative);
  }

  /** Use of a queue. */
  usedBy(queue: string): Amounts {
    return this.#used.get(queue) ?? new Map();
  }

  /** The quotas that a further job would exceed. */
  excesses(domains: readonly QuotaDomain[], total: Amounts): readonly Excess[] {
    return domains.flatMap((domain) => {
      const used = this.#used.get(domain.key);
      return [...domain.limits].flatMap(([resource, limit]) => {
        const amount = total.get(resource) ?? 0n;
        const before = used?.get(resource) ?? 0n;
        return amount > 0n && before + amount > limit ? [{ domain, resource, used: before }] : [];
      });
    });
  }

  #of(key: string): Map<string, bigint> {
    const known = this.#used.get(key) ?? new Map<string, bigint>();
    this.#used.set(key, known);
    return known;
  }
}
