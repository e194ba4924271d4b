import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { EventRecorder } from "@keelson/controller/events";
import { runCommand } from "./network-commands.ts";
import type { NetworkNames } from "./network-names.ts";
import { type KnownPolicy, maxPolicySize, withoutAllowances } from "./policy-objects.ts";
import { maxNamespaceElements, policyRules, type PolicySources } from "./policy-rules.ts";
import { policyTable } from "./policy-table.ts";

/** Options of {@link PolicyApplication}. */
export interface PolicyApplicationOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Writes Warning events about policies whose allowances are left out. */
  readonly events: EventRecorder;
  readonly names: NetworkNames;
  /** Applies a rule set in the router, or only checks it. Rejects if nftables rejects it. Default: `nft`. */
  readonly apply?: ((table: string, isCheck: boolean) => Promise<void>) | undefined;
  /** Interrupts computations. */
  readonly signal: AbortSignal;
}

/** What the rules are derived from, with followed policies. */
export type AppliedSources = Omit<PolicySources, "policies" | "blocks"> & { readonly policies: readonly KnownPolicy[] };

/** How long rules are computed before other work gets a turn. */
const sliceMs = 3;

/** How many policies that nftables rejects are searched for. If there are more, later policies are left out as well. */
const maxRejected = 4;

/** How long a policy that nftables rejected is left out, unless it changes. */
const omittedMs = 60_000;

/** The rules of NetworkPolicies in the router. A policy that cannot be applied isolates its Pods and allows nothing. */
export class PolicyApplication {
  readonly #options: PolicyApplicationOptions;
  /** The time until which the allowances of rejected policies are left out. */
  readonly #leftOut = new Map<KnownPolicy, number>();
  #reported: ReadonlySet<KnownPolicy> = new Set();
  #blocks: PolicySources["blocks"];
  #applied = "";

  constructor(options: PolicyApplicationOptions) {
    this.#options = options;
  }

  /** Computes and applies rules, unless they are in effect. Rejects if nftables rejects them for another reason than some policies. */
  async apply(sources: AppliedSources): Promise<void> {
    const { clock } = this.#options;
    const current = new Set(sources.policies);
    this.#reported = new Set([...this.#reported].filter((policy) => current.has(policy)));
    for (const [policy, until] of this.#leftOut) {
      if (!current.has(policy) || clock.monotonic() >= until) this.#leftOut.delete(policy);
    }
    const table = await this.#render(sources, new Set(this.#leftOut.keys()));
    if (table === this.#applied) return;
    try {
      await this.#run(table);
      this.#applied = table;
    } catch (error) {
      await this.#applyWithoutRejected(sources, error);
    }
  }

  async #applyWithoutRejected(sources: AppliedSources, error: unknown): Promise<void> {
    const { clock } = this.#options;
    const rejected = await this.#findRejected(sources);
    if (rejected.size === 0) throw error;
    const table = await this.#render(sources, new Set([...this.#leftOut.keys(), ...rejected]));
    await this.#run(table);
    this.#applied = table;
    // Text of nftables may quote all of a set.
    const [reason = ""] = (error instanceof Error ? error.message : "unknown error").slice(0, 300).split("\n");
    for (const policy of rejected) {
      this.#leftOut.set(policy, clock.monotonic() + omittedMs);
      this.#report(policy, "RulesRejected", `nftables rejects the rules of the policy: ${reason}`);
    }
  }

  /** The policies without which the rules are accepted. None, if policies are not the reason. */
  async #findRejected(sources: AppliedSources): Promise<ReadonlySet<KnownPolicy>> {
    const policies = sources.policies.filter((policy) => !this.#leftOut.has(policy));
    const rejected = new Set<KnownPolicy>();
    const isAccepted = async (count: number): Promise<boolean> => {
      const table = await this.#render(sources, new Set([...this.#leftOut.keys(), ...rejected, ...policies.slice(count)]));
      return await this.#run(table, true).then(
        () => true,
        () => false,
      );
    };
    if (!(await isAccepted(0))) return rejected;
    let accepted = 0;
    while (!(await isAccepted(policies.length))) {
      if (rejected.size === maxRejected) return new Set([...rejected, ...policies.slice(accepted)]);
      let refused = policies.length;
      while (refused - accepted > 1) {
        const middle = Math.floor((accepted + refused) / 2);
        if (await isAccepted(middle)) accepted = middle;
        else refused = middle;
      }
      for (const policy of policies.slice(accepted, refused)) rejected.add(policy);
      accepted = refused;
    }
    return rejected;
  }

  async #render(sources: AppliedSources, leftOut: ReadonlySet<KnownPolicy>): Promise<string> {
    const policies = sources.policies.map((policy) => (leftOut.has(policy) ? withoutAllowances(policy) : policy));
    const rules = await this.#inSlices(policyRules({ ...sources, policies, ...(this.#blocks && { blocks: this.#blocks }) }));
    this.#blocks = rules.blocks;
    const oversized = new Set(rules.oversized);
    for (const [index, policy] of sources.policies.entries()) {
      if (policy.size > maxPolicySize) {
        const limit = `rules, peers, exceptions and ports: must have at most ${maxPolicySize} items`;
        this.#report(policy, "PolicyTooLarge", `spec: Too many: ${policy.size} ${limit}`);
      } else if (oversized.has(index)) {
        const limit = `at most ${maxNamespaceElements} ranges of addresses`;
        this.#report(policy, "PolicyTooLarge", `the peers of the policies of a namespace must have ${limit}`);
      }
    }
    return await this.#inSlices(policyTable(this.#options.names, rules));
  }

  async #run(table: string, isCheck = false): Promise<void> {
    const { names, apply } = this.#options;
    if (apply !== undefined) return await apply(table, isCheck);
    const nft = ["ip", "netns", "exec", names.router, "nft", ...(isCheck ? ["-c"] : []), "-f", "-"];
    await runCommand(nft, table);
  }

  #report(policy: KnownPolicy, reason: string, cause: string): void {
    if (this.#reported.has(policy)) return;
    this.#reported = new Set([...this.#reported, policy]);
    const { events, log } = this.#options;
    const { namespace, name, uid } = policy;
    const note = `The policy isolates the Pods that it selects and allows nothing: ${cause}`;
    log.warn({ namespace, name, reason }, note);
    const regarding = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { namespace, name, uid } };
    events.event(regarding, { type: "Warning", reason, action: "ApplyRules", note });
  }

  /** Runs a computation to its end, in several turns of the event loop. */
  async #inSlices<T>(steps: Generator<void, T>): Promise<T> {
    const { clock, signal } = this.#options;
    let since = clock.monotonic();
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (clock.monotonic() - since < sliceMs) continue;
      await nextTurn();
      signal.throwIfAborted();
      since = clock.monotonic();
    }
  }
}
