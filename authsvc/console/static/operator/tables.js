// Names the column in each cell of a table, for the cards that phones show instead of rows.
'use strict'
{
  const nameColumns = (table) => {
    const names = [...table.querySelectorAll('thead th')].map((header) => header.innerText.trim())
    for (const row of table.querySelectorAll('tbody tr')) {
      for (const [index, cell] of [...row.cells].entries()) {
        if (index > 0 && names[index] && !cell.dataset.column) cell.dataset.column = names[index]
      }
    }
  }
  const nameAll = () => document.querySelectorAll('#content table').forEach(nameColumns)

  nameAll()
  // Other scripts replace tables.
  new MutationObserver(nameAll).observe(document.querySelector('#content'), { childList: true, subtree: true })
}
