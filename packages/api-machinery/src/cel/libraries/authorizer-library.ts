import type { Environment } from "@marcbachmann/cel-js";

/** The target of an access check: a path or a resource. */
export type CheckedTarget =
  | { readonly path: string }
  | {
      readonly group: string;
      readonly resource: string;
      readonly subresource: string;
      readonly namespace: string;
      readonly name: string;
    };

/** An access check of an expression. */
export interface AccessCheck {
  /** Undefined: the user of the request. */
  readonly serviceAccount: { readonly namespace: string; readonly name: string } | undefined;
  readonly verb: string;
  readonly target: CheckedTarget;
}

/** Decides an {@link AccessCheck}. */
export type CheckAccess = (check: AccessCheck) => { readonly allowed: boolean; readonly reason: string };

type ResourceTarget = Exclude<CheckedTarget, { path: string }>;

/** The `authorizer` variable of expressions. */
class CelAuthorizer {
  readonly check: CheckAccess;
  readonly serviceAccount: AccessCheck["serviceAccount"];
  readonly requestResource: ResourceCheck;

  constructor(check: CheckAccess, requested: ResourceTarget, serviceAccount?: AccessCheck["serviceAccount"]) {
    this.check = check;
    this.serviceAccount = serviceAccount;
    this.requestResource = new ResourceCheck(this, requested);
  }
}

class PathCheck {
  readonly authorizer: CelAuthorizer;
  readonly path: string;

  constructor(authorizer: CelAuthorizer, path: string) {
    this.authorizer = authorizer;
    this.path = path;
  }
}

class GroupCheck {
  readonly authorizer: CelAuthorizer;
  readonly group: string;

  constructor(authorizer: CelAuthorizer, group: string) {
    this.authorizer = authorizer;
    this.group = group;
  }
}

class ResourceCheck {
  readonly authorizer: CelAuthorizer;
  readonly target: ResourceTarget;

  constructor(authorizer: CelAuthorizer, target: ResourceTarget) {
    this.authorizer = authorizer;
    this.target = target;
  }

  with(change: Partial<ResourceTarget>): ResourceCheck {
    return new ResourceCheck(this.authorizer, { ...this.target, ...change });
  }
}

class AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;

  constructor({ allowed, reason }: ReturnType<CheckAccess>) {
    this.allowed = allowed;
    this.reason = reason;
  }
}

/** The type of the `authorizer` variable. */
export const authorizerType = "kubernetes.authorization.Authorizer";

/** Creates the value of the `authorizer` variable. `requested` is the resource of the request under admission. */
export function celAuthorizer(check: CheckAccess, requested: ResourceTarget): unknown {
  return new CelAuthorizer(check, requested);
}

/** Registers the functions that check access (KEP-3488): `authorizer.group("apps").resource("deployments").check("create").allowed()`. */
export function registerAuthorizerLibrary(environment: Environment): void {
  const prefix = "kubernetes.authorization";
  const [path, group, resource, decision] = ["PathCheck", "GroupCheck", "ResourceCheck", "Decision"].map(
    (name) => `${prefix}.${name}`,
  );
  const check = (authorizer: CelAuthorizer, verb: string, target: CheckedTarget): AccessDecision =>
    new AccessDecision(authorizer.check({ serviceAccount: authorizer.serviceAccount, verb, target }));
  environment
    .registerType(`${path}`, PathCheck)
    .registerType(`${group}`, GroupCheck)
    .registerType(`${resource}`, ResourceCheck)
    .registerType(`${decision}`, AccessDecision)
    .registerType(authorizerType, { ctor: CelAuthorizer, fields: { requestResource: `${resource}` } })
    .registerFunction(`${authorizerType}.path(string): ${path}`, (of: CelAuthorizer, text: string) => new PathCheck(of, text))
    .registerFunction(
      `${authorizerType}.group(string): ${group}`,
      (of: CelAuthorizer, text: string) => new GroupCheck(of, text),
    )
    .registerFunction(
      `${authorizerType}.serviceAccount(string, string): ${authorizerType}`,
      (of: CelAuthorizer, namespace: string, name: string) =>
        new CelAuthorizer(of.check, of.requestResource.target, { namespace, name }),
    )
    .registerFunction(
      `${group}.resource(string): ${resource}`,
      (of: GroupCheck, name: string) =>
        new ResourceCheck(of.authorizer, { group: of.group, resource: name, subresource: "", namespace: "", name: "" }),
    )
    .registerFunction(`${resource}.subresource(string): ${resource}`, (of: ResourceCheck, subresource: string) =>
      of.with({ subresource }),
    )
    .registerFunction(`${resource}.namespace(string): ${resource}`, (of: ResourceCheck, namespace: string) =>
      of.with({ namespace }),
    )
    .registerFunction(`${resource}.name(string): ${resource}`, (of: ResourceCheck, name: string) => of.with({ name }))
    .registerFunction(`${path}.check(string): ${decision}`, (of: PathCheck, verb: string) =>
      check(of.authorizer, verb, { path: of.path }),
    )
    .registerFunction(`${resource}.check(string): ${decision}`, (of: ResourceCheck, verb: string) =>
      check(of.authorizer, verb, of.target),
    )
    .registerFunction(`${decision}.allowed(): bool`, (of: AccessDecision) => of.allowed)
    .registerFunction(`${decision}.reason(): string`, (of: AccessDecision) => of.reason)
    .registerFunction(`${decision}.errored(): bool`, () => false)
    .registerFunction(`${decision}.error(): string`, () => "");
}
