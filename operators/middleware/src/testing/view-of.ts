import { revisionAnnotation } from "../api/names.ts";
import type { Role } from "../controllers/group/observation.ts";
import type { View } from "../controllers/group/view.ts";

/**
 * The Pod `p-<ordinal>` at 127.0.0.1<ordinal>, as it is to be: a replica of `p-0` that is in sync, unless `role` says otherwise.
 * `isWanted`: whether the Group is to have it.
 */
export function viewOf(ordinal: number, role: Partial<Role>, { revision = "r2", isWanted = true } = {}): View {
  const name = `p-${ordinal}`;
  return {
    name,
    pod: { metadata: { name, uid: `uid-${ordinal}`, annotations: { [revisionAnnotation]: revision } } } as never,
    instance: isWanted ? ({ name, revision: "r2" } as never) : undefined,
    role: { role: "replica", primaryHost: "127.0.0.10", isInSync: true, configHash: "new", ...role },
    ip: `127.0.0.1${ordinal}`,
  };
}
