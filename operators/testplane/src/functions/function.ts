/** The object that a function inspects; `undefined` if it does not exist. */
export type Resource = Readonly<Record<string, unknown>> | undefined;

/** Parameters of a function call in a test. */
export type Params = Readonly<Record<string, unknown>>;

/** Result of a check. */
export interface CheckResult {
  readonly passed: boolean;
  /** Observed value. */
  readonly actual?: string;
  /** Why the check failed. */
  readonly message?: string;
  /** Expected value. */
  readonly expected?: string;
  /** Fields that differ, one per line. */
  readonly diff?: string;
  /** The check can never hold again, so waiting is pointless. */
  readonly isTerminal?: boolean;
  /** When the check may hold without a change of the object. */
  readonly retryAtMs?: number;
}

/** Inputs of a check, except the object. */
export interface CheckContext {
  readonly now: number;
  /** The Pods of the object, if it is a workload and they can be read. */
  readonly pods: readonly NonNullable<Resource>[] | undefined;
}

/** Type of a parameter. */
export interface Parameter {
  readonly type: "string" | "integer" | "boolean" | "any";
  readonly required?: boolean;
}

interface Named {
  readonly name: string;
  readonly params: Readonly<Record<string, Parameter>>;
}

/** A built-in function that checks an object. */
export interface CheckFunction extends Named {
  /** Whether the check inspects the Pods of the object. */
  readonly needsPods?: boolean;
  /** Whether the check works on any kind and knows none of their terminal states. */
  readonly isGeneric?: boolean;
  readonly check: (resource: Resource, params: Params, context: CheckContext) => CheckResult;
}

/** A built-in function that extracts a value from an object; `undefined` if the object has no such value. */
export interface ExtractorFunction extends Named {
  readonly extract: (resource: Resource, params: Params) => string | undefined;
}

/** Result of a check that holds. */
export const pass = (actual?: string): CheckResult => ({ passed: true, ...(actual === undefined ? {} : { actual }) });

/** Result of a check that does not hold yet. */
export const fail = (message: string, actual?: string): CheckResult => ({
  passed: false,
  message,
  ...(actual === undefined ? {} : { actual }),
});

/** Result of a check that can never hold again. */
export const failPermanently = (message: string, actual?: string): CheckResult => ({
  ...fail(message, actual),
  isTerminal: true,
});
