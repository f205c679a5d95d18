// Adds options from a table, and checks them together.

#include "tools/command/OptionRows.h"

#include "tools/Help.h"

namespace polyrank {
namespace {

CLI::Option *addRow(CLI::App &app, const OptionRow &row) {
  if (bool *const *flag = std::get_if<bool *>(&row.field))
    return app.add_flag(row.names, **flag, row.help);
  auto *option = app.add_option(
      row.names,
      [row](const CLI::results_t &texts) {
        std::string wrong = setField(row, texts);
        if (!wrong.empty())
          throw CLI::ValidationError(row.longName(), wrong);
        return true;
      },
      row.help);
  option->type_name(row.value)->default_str(defaultOf(row));
  option->expected(1);
  if (row.isRepeatable())
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (auto *field = std::get_if<TextField>(&row.field);
      field && !field->words.empty())
    option->check(oneOf(field->words));
  if (!row.rules.otherwise.empty())
    option->expected(0, 1)->default_str(row.rules.otherwise);
  return option;
}

} // namespace

void addOptions(CLI::App &app, const OptionTable &table) {
  for (const OptionGroup &group : table)
    for (const OptionRow &row : group.rows) {
      CLI::Option *option = addRow(app, row);
      if (!row.isPositional())
        option->group(group.title);
    }
  for (const OptionGroup &group : table)
    for (const OptionRow &row : group.rows) {
      CLI::Option *option = app.get_option(row.longName());
      if (!row.rules.needs.empty())
        option->needs(app.get_option(row.rules.needs));
      for (const std::string &other : row.rules.excludes)
        option->excludes(app.get_option(other));
    }
}

void refuseContradictions(const CLI::App &app, const OptionTable &table) {
  for (const OptionGroup &group : table)
    for (const OptionRow &row : group.rows)
      if (row.rules.refuse && app.count(row.longName()))
        if (std::string reason = row.rules.refuse(); !reason.empty())
          throw CLI::ValidationError(row.longName(), reason);
}

} // namespace polyrank
