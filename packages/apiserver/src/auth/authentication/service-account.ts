/** The name of a service account. */
export interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}

const userPrefix = "system:serviceaccount:";

/** The user name of a service account. */
export function serviceAccountUser({ namespace, name }: ServiceAccountName): string {
  return `${userPrefix}${namespace}:${name}`;
}

/** Parses the user name of a service account; undefined for other users. */
export function splitServiceAccountUser(username: string): ServiceAccountName | undefined {
  if (!username.startsWith(userPrefix)) return undefined;
  const [namespace, name, ...rest] = username.slice(userPrefix.length).split(":");
  return namespace && name && rest.length === 0 ? { namespace, name } : undefined;
}

/** The groups of a namespace's service accounts. */
export function serviceAccountGroups(namespace: string): string[] {
  return ["system:serviceaccounts", `system:serviceaccounts:${namespace}`];
}
