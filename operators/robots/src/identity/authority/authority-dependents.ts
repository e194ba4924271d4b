import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import type { StoredToken } from "../token-store.ts";
import { robotsWithout } from "./trusting-robots.ts";

/** What cannot be used once the previous authority is no longer trusted. */
export interface AuthorityDependents {
  readonly robots: readonly DeepReadonly<Robot>[];
  /** Ids of join tokens. */
  readonly tokens: readonly string[];
}

/** The robots and the usable join tokens that do not know the authority with this pin, which replaces the previous one. */
export function authorityDependents(
  { robots, tokens }: { readonly robots: readonly DeepReadonly<Robot>[]; readonly tokens: readonly StoredToken[] },
  pin: string,
  now: number,
): AuthorityDependents {
  return {
    robots: robotsWithout(robots, pin),
    tokens: tokens
      .filter(({ used, expiresAt, authority }) => used === undefined && Date.parse(expiresAt) > now && authority !== pin)
      .map(({ id }) => id),
  };
}
