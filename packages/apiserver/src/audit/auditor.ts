import type { Clock } from "@keelson/api-machinery/time";
import { type RequestInfo, requestInfo } from "../endpoints/request-info.ts";
import type { AuditMetrics } from "./audit-metrics.ts";
import type { AuditPolicy } from "./audit-policy.ts";
import { type AuditedRequest, AuditRecord } from "./audit-record.ts";
import { auditSettings } from "./match-rule.ts";

/** What {@link Auditor} takes. */
export interface AuditorOptions {
  readonly policy: AuditPolicy;
  /** Receives each event as one line of JSON, with its line break. Must neither throw nor wait. */
  readonly write: (line: string) => void;
  readonly clock: Pick<Clock, "now">;
  readonly metrics: AuditMetrics;
}

/** A request to audit, before its attributes are known. */
export interface AuditedTarget extends Omit<AuditedRequest, "info"> {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** Creates the audit records of requests by a policy. */
export class Auditor {
  readonly #options: AuditorOptions;

  constructor(options: AuditorOptions) {
    this.#options = options;
  }

  /** Starts the record of a request; undefined if the policy records nothing of it, or if its path is malformed. */
  begin(target: AuditedTarget): AuditRecord | undefined {
    const { policy, metrics, clock, write } = this.#options;
    const info = attributesOf(target);
    if (info === undefined) return undefined;
    const settings = auditSettings(policy, target.user, info);
    metrics.request(settings.level);
    if (settings.level === "None") return undefined;
    const count = (line: string): void => {
      metrics.event();
      write(line);
    };
    return new AuditRecord({ ...target, info }, { settings, clock, write: count });
  }
}

function attributesOf(target: AuditedTarget): RequestInfo | undefined {
  try {
    return requestInfo(target);
  } catch {
    return undefined;
  }
}
