export { queryNameServers, messageOf, type NameServersOptions, questionOnly, withLength } from "./dns/name-servers.ts";
