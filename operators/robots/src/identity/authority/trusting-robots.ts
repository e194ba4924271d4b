import { X509Certificate } from "node:crypto";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import { identityOf } from "../robot-identity.ts";
import type { RobotAuthority } from "./robot-authority.ts";
import { authorityIdOf } from "./trust-bundle.ts";

const prefix = "authority-";

/** Feature of an agent that trusts the certificate authority with this pin. */
export const authorityFeature = (pin: string): string => `${prefix}${authorityIdOf(pin)}`;

/** The ids of the certificate authorities that a robot trusts. Empty without a key, and for an agent that does not report them.. */
export function authoritiesOf(robot: DeepReadonly<Robot>): readonly string[] {
  const { identity, agentFeatures = [] } = robot.status ?? {};
  if (identity === undefined || identityOf(robot)?.isRevoked === true) return [];
  return agentFeatures.flatMap((each) => (each.startsWith(prefix) ? [each.slice(prefix.length)] : []));
}

/** Whether a robot with a key trusts other authorities, or has a certificate of another one than the one that issues them. */
export function isBehind(robot: DeepReadonly<Robot>, { trusted, state }: RobotAuthority): boolean {
  const { identity } = robot.status ?? {};
  if (identity === undefined) return false;
  const known = authoritiesOf(robot);
  if (known.length !== trusted.length || trusted.some(({ pin }) => !known.includes(authorityIdOf(pin)))) return true;
  const issuer = trusted.find(({ certificate }) => certificate === state.authority.certificate)?.x509;
  return issuer !== undefined && !new X509Certificate(identity.certificate).verify(issuer.publicKey);
}

/** The robots with keys that do not trust an authority, by name. Those whose key is revoked do not count. */
export function robotsWithout(robots: readonly DeepReadonly<Robot>[], pin: string): readonly DeepReadonly<Robot>[] {
  const id = authorityIdOf(pin);
  return robots.filter((robot) => {
    const identity = identityOf(robot);
    return identity !== undefined && !identity.isRevoked && !authoritiesOf(robot).includes(id);
  });
}
