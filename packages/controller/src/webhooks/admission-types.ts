import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { JsonPatchOperation } from "@keelson/client";

/** The operations of admission. */
export type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** The user of a request (authentication/v1 UserInfo). */
export interface RequestUser {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Group, version and kind of the objects of a request. */
export interface RequestKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** A request under admission (admission/v1 AdmissionRequest). */
export interface AdmissionRequest<T extends KubernetesObject = KubernetesObject> {
  readonly uid: string;
  readonly operation: Operation;
  readonly kind: RequestKind;
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  /** `""` for the object itself. */
  readonly subResource: string;
  /** `""` if the server has yet to generate it. */
  readonly name: string;
  /** `""` for cluster-scoped objects. */
  readonly namespace: string;
  readonly userInfo: RequestUser;
  readonly dryRun: boolean;
  /** Undefined for a delete. */
  readonly object: DeepReadonly<T> | undefined;
  /** Undefined for a create. */
  readonly oldObject: DeepReadonly<T> | undefined;
  /** CreateOptions, UpdateOptions or DeleteOptions. */
  readonly options: Readonly<Record<string, unknown>> | undefined;
}

/** The result of a handler. */
export type AdmissionResult =
  | {
      readonly allowed: true;
      /** Mutating webhooks only. */
      readonly patch?: readonly JsonPatchOperation[];
    }
  | {
      readonly allowed: false;
      readonly message: string;
      /** HTTP status. Default 403. */
      readonly code?: number;
      /** Default `Forbidden`. */
      readonly reason?: string;
    };
