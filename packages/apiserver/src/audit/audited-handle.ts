import type { Handle, WatchOutcome } from "../endpoints/outcome.ts";
import type { AuditRecord } from "./audit-record.ts";
import type { Auditor } from "./auditor.ts";

/** Audits the requests that reach `handle` within the process. Those of an HTTP server are audited there. */
export function auditedHandle(handle: Handle, auditor: Auditor, newId: () => string): Handle {
  return async (request) => {
    const { user, userAgent, method, path, query = {} } = request;
    const entries = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const uri = entries.length === 0 ? path : `${path}?${new URLSearchParams(entries).toString()}`;
    const audit = auditor.begin({ auditId: newId(), uri, user, sourceIps: [], userAgent, method, path, query });
    if (audit === undefined) return handle(request);
    try {
      const outcome = await handle({ ...request, audit });
      audit.respond(outcome);
      if (outcome.kind === "watch") return auditedWatch(outcome, audit);
      audit.complete();
      return outcome;
    } catch (error) {
      audit.panic(error);
      throw error;
    }
  };
}

/** Completes the record when either side ends the watch. */
function auditedWatch(outcome: WatchOutcome, audit: AuditRecord): WatchOutcome {
  return {
    ...outcome,
    open(sink) {
      const source = outcome.open({
        events: (batch, isInitial) => sink.events(batch, isInitial),
        end() {
          audit.complete();
          sink.end();
        },
      });
      return {
        close() {
          audit.complete();
          source.close();
        },
      };
    },
  };
}
