import { mastersGroup } from "./auth/certificates/pki.ts";
import type { UserInfo } from "./registry/served-resource.ts";

/** The user of the server itself and of components that run with it. May do everything. */
export const systemUser: UserInfo = { username: "system:apiserver", groups: [mastersGroup, "system:authenticated"] };
