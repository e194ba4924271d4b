import type { RawOutcome } from "../endpoints/outcome.ts";

/** Health checks by name. Each returns a problem, or undefined if healthy. `ping` always exists. */
export type HealthChecks = Readonly<Record<string, () => string | undefined>>;

/** The paths of health checks in the root document. */
export const healthPaths: readonly string[] = ["/healthz", "/healthz/ping", "/livez", "/readyz"];

const endpoints = new Set(["healthz", "livez", "readyz"]);

/**
 * Serves `/healthz`, `/livez`, `/readyz` and their individual checks (`/readyz/ping`), with `?verbose` and `?exclude=name,name`, like
 * kube-apiserver. The reason of a failure is withheld, since anonymous clients may read it. Undefined for an unknown path or check.
 */
export function healthOutcome(
  path: string,
  query: Readonly<Record<string, string | undefined>>,
  checks: HealthChecks,
): RawOutcome | undefined {
  const [endpoint = "", ...rest] = path.slice(1).split("/");
  if (!endpoints.has(endpoint)) return undefined;
  const single = rest.join("/");
  if (rest.length > 0 && single === "") return undefined;
  const all: HealthChecks = { ping: () => undefined, ...checks };
  if (single !== "") {
    const check = Object.hasOwn(all, single) ? all[single] : undefined;
    if (check === undefined) return undefined;
    return isFailing(check) ? text(500, `internal server error: ${single} failed`) : text(200, "ok");
  }
  const excluded = new Set(query["exclude"]?.split(",") ?? []);
  const lines: string[] = [];
  let failed = 0;
  for (const [name, check] of Object.entries(all)) {
    if (excluded.has(name)) lines.push(`[+]${name} excluded: ok`);
    else if (isFailing(check)) {
      failed++;
      lines.push(`[-]${name} failed: reason withheld`);
    } else lines.push(`[+]${name} ok`);
  }
  if (failed > 0) return text(500, `${lines.join("\n")}\n${endpoint} check failed\n`);
  const isVerbose = query["verbose"] !== undefined && query["verbose"] !== "false";
  return text(200, isVerbose ? `${lines.join("\n")}\n${endpoint} check passed\n` : "ok");
}

function isFailing(check: () => string | undefined): boolean {
  try {
    return check() !== undefined;
  } catch {
    return true;
  }
}

function text(status: number, body: string): RawOutcome {
  return {
    kind: "raw",
    status,
    headers: {
      "content-type": "text/plain; charset=utf-8",
      "x-content-type-options": "nosniff",
      "cache-control": "no-cache, private",
    },
    body,
  };
}
