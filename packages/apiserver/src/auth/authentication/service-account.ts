/** A service account by name. */
export interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}

const userPrefix = "system:serviceaccount:";

/** Name of the user that a service account is. */
export function serviceAccountUser({ namespace, name }: ServiceAccountName): string {
  return `${userPrefix}${namespace}:${name}`;
}

/** The service account whose user has this name; undefined when it is no service account's. */
export function splitServiceAccountUser(username: string): ServiceAccountName | undefined {
  if (!username.startsWith(userPrefix)) return undefined;
  const [namespace, name, ...rest] = username.slice(userPrefix.length).split(":");
  return namespace && name && rest.length === 0 ? { namespace, name } : undefined;
}

/** Groups of every service account of a namespace. */
export function serviceAccountGroups(namespace: string): string[] {
  return ["system:serviceaccounts", `system:serviceaccounts:${namespace}`];
}
