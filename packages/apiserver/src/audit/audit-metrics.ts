import { Counter } from "../discovery/histogram.ts";
import type { AuditLevel } from "./audit-policy.ts";

/** The metrics of the audit log under kube-apiserver's names. */
export class AuditMetrics {
  readonly #levels = new Counter("apiserver_audit_level_total", "Number of requests by audit level.");
  #events = 0;
  #lost = 0;

  /** Counts a request. */
  request(level: AuditLevel): void {
    this.#levels.increment(`level="${level}"`);
  }

  /** Counts an event. */
  event(): void {
    this.#events++;
  }

  /** Counts events that could not be written. */
  lose(events: number): void {
    this.#lost += events;
  }

  *lines(): Generator<string> {
    yield* scalar("apiserver_audit_event_total", "Number of audit events, including those that were lost.", this.#events);
    yield* scalar(
      "apiserver_audit_error_total",
      "Number of audit events that could not be written.",
      this.#lost,
      'plugin="log"',
    );
    yield* this.#levels.lines();
  }
}

function* scalar(name: string, help: string, value: number, labels = ""): Generator<string> {
  yield `# HELP ${name} ${help}`;
  yield `# TYPE ${name} counter`;
  yield `${name}${labels === "" ? "" : `{${labels}}`} ${value}`;
}
