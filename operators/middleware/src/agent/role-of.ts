import type { Role } from "../controllers/group/observation.ts";

/** The state of a Pod as its agent reports it. */
export function roleOf(role: string, info: Readonly<Record<string, string>>): Role {
  const {
    configHash,
    version,
    dataVersion,
    upgrade,
    primaryHost,
    isInSync,
    offset,
    timeline,
    epoch,
    keys,
    members,
    credentials,
    credentialsId,
    certificates,
    tokens,
    tokensId = "",
  } = info;
  return {
    role,
    isInSync: isInSync === "true",
    ...(role === "replica" && primaryHost !== undefined ? { primaryHost } : {}),
    ...(configHash === undefined ? {} : { configHash }),
    ...(version === undefined ? {} : { version }),
    ...(dataVersion === undefined ? {} : { dataVersion }),
    ...(upgrade === undefined ? {} : { upgrade }),
    offset: Number(offset ?? 0),
    ...(timeline === undefined ? {} : { timeline: Number(timeline) }),
    epoch: Number(epoch ?? 0),
    keys: Number(keys ?? 0),
    members: members ?? "",
    ...(credentials === undefined
      ? {}
      : { credentials: { sequence: Number(credentials), ...(credentialsId === undefined ? {} : { id: credentialsId }) } }),
    ...(certificates === undefined ? {} : { certificates }),
    ...(tokens === undefined ? {} : { tokens: { sequence: Number(tokens), id: tokensId } }),
    ...logOf(info),
  };
}

function logOf({
  logArchive,
  logArchived,
  logArchivedAt,
  logBacklog,
  logMissing,
}: Readonly<Record<string, string>>): Pick<Role, "log"> {
  if (logArchive === undefined) return {};
  return {
    log: {
      isArchived: logArchive === "true",
      ...(logArchived === undefined ? {} : { file: logArchived }),
      ...(logArchivedAt === undefined ? {} : { archivedAt: logArchivedAt }),
      ...(logBacklog === undefined ? {} : { backlog: Number(logBacklog) }),
      ...(logMissing === undefined ? {} : { missing: logMissing }),
    },
  };
}
